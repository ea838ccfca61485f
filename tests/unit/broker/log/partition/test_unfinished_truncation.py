"""A truncation that the operating system interrupts: either nothing was cut, or the log takes no more records."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_core.errors import KafkaStorageError
from tests.support.broker.partition_logs import NOW_MS, append, batch_of, open_log, read_values, small_segments

CUT = 7
RECORDS = 40


def long_log(directory: Path, *, epoch: int = 1) -> PartitionLog:
    log = open_log(directory, config=small_segments())
    for number in range(RECORDS):
        append(log, b"%d" % number, leader_epoch=epoch)
    log.flush()
    log.high_watermark = 3
    return log


def values(log: PartitionLog) -> list[bytes]:
    log.high_watermark = log.log_end_offset
    return [value for _, value in read_values(log)]


def refusing(function: Callable[..., Any], code: int, *, after: int) -> Callable[..., Any]:
    """Return a function that works so many times and is refused from then on."""
    calls = 0

    def refuse(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > after:
            raise OSError(code, os.strerror(code))
        return function(*arguments, **options)

    return refuse


@pytest.mark.parametrize("whole", [False, True])
def test_without_descriptors_nothing_is_cut_and_the_next_attempt_cuts(
    whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for after in range(12):
        directory = tmp_path / str(after)
        directory.mkdir()
        log = long_log(directory)
        for segment in log.segments:
            segment.release_file()
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", refusing(os.open, errno.EMFILE, after=after))
            try:
                cut(log, whole=whole)
            except KafkaStorageError:
                assert log.log_end_offset == RECORDS
        assert log.failure is None, "too few descriptors say nothing of the disk"
        cut(log, whole=whole)
        append(log, b"later", leader_epoch=2)
        if not whole:
            assert values(log) == [*(b"%d" % number for number in range(CUT)), b"later"]
        assert log.log_end_offset == (RECORDS + 2 if whole else CUT + 1)
        log.abandon()


def cut(log: PartitionLog, *, whole: bool) -> None:
    if whole:
        log.truncate_fully_and_start_at(RECORDS + 1, NOW_MS)
    else:
        log.truncate_to(CUT, NOW_MS)


@pytest.mark.parametrize("step", ["rename", "unlink"])
def test_a_cut_that_stops_half_way_ends_the_log_and_leaves_no_hole(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for after in range(9):
        directory = tmp_path / str(after)
        directory.mkdir()
        log = long_log(directory)
        with monkeypatch.context() as patch:
            patch.setattr(Path, step, refusing(getattr(Path, step), errno.EIO, after=after))
            with pytest.raises(KafkaStorageError):
                log.truncate_to(CUT, NOW_MS)
        if log.failure is None:
            assert log.log_end_offset == RECORDS
            log.truncate_to(CUT, NOW_MS)
            follow_anew(log)
        else:
            with pytest.raises(KafkaStorageError):
                follow_anew(log)
        log.abandon()
        found = open_log(directory, config=small_segments(), was_clean=False, recovery_point=0)
        left = values(found)
        assert left[:CUT] == [b"%d" % number for number in range(CUT)]
        former = left[CUT:]
        assert former in ([b"new"] * 9, [b"%d" % number for number in range(CUT, len(left))]), "one history alone"
        found.abandon()


def follow_anew(log: PartitionLog) -> None:
    for _ in range(9):
        batch = batch_of(b"new", base_offset=log.log_end_offset, leader_epoch=2)
        log.append_as_follower(batch, now_ms=NOW_MS)
