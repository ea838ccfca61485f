"""A log whose system calls are refused now and then has what it has acknowledged, while it runs and after a restart.

Scarcity (no descriptors, no space) and errors strike at any call of any operation, and for some calls on. What an
operation has refused must have left nothing behind that a restart takes for a part of the log. (Fsyncs are left out:
one that fails ends the log, and a process that is killed needs none.)
"""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from ottla_broker.log.background import InlineBackground, Work
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_core.errors import KafkaStorageError
from tests.support.broker.partition_logs import (
    NOW_MS,
    append,
    batch_of,
    open_log,
    problems_in,
    read_values,
    small_segments,
)

RUNS = 40
STEPS_MAX = 30
CODES = (errno.ENOSPC, errno.EMFILE, errno.EIO)
CALLS = ("open", "ftruncate", "truncate", "pwrite", "write")
FILE_CALLS = ("rename", "replace", "unlink")
CONFIG = small_segments(file_delete_delay_ms=0, cleanup_policy=frozenset({"compact"}))
"""Of a topic that may have gaps, which are no losses."""
RETAINING = small_segments(file_delete_delay_ms=0, retention_bytes=700)


class Refusals:
    """Which of the calls to come are refused."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._allowed = self._refused = 0
        self._code = 0

    @contextmanager
    def sometimes(self) -> Iterator[None]:
        """Have some calls of the block refused, in one block of three."""
        random = self._random
        if random.random() < 1 / 3:
            self._allowed, self._refused = random.randrange(12), random.choice((1, 1, 2, 3, 100))
            self._code = random.choice(CODES)
        try:
            yield
        finally:
            self._refused = 0

    def refusing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a system call that may be refused."""

        def refuse(*arguments: Any, **options: Any) -> Any:
            if self._refused:
                if not self._allowed:
                    self._refused -= 1
                    raise OSError(self._code, os.strerror(self._code))
                self._allowed -= 1
            return call(*arguments, **options)

        return refuse

    def _writing_half(self, pwrite: Callable[..., int], pwritev: Callable[..., int]) -> Callable[..., int]:
        """Return a call that writes half of its data where it is to be refused: the next one is."""

        def write(descriptor: int, buffers: Sequence[bytes], position: int) -> int:
            if not self._refused or self._allowed:
                self._allowed = max(0, self._allowed - 1)
                return pwritev(descriptor, buffers, position)
            data = b"".join(buffers)
            return pwrite(descriptor, data[: len(data) // 2], position)

        return write

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Have every call of interest go through here."""
        with ExitStack() as patches:
            patches.enter_context(patch.object(os, "fsync", lambda _: None))
            patches.enter_context(patch.object(os, "pwritev", self._writing_half(os.pwrite, os.pwritev)))
            for name in CALLS:
                patches.enter_context(patch.object(os, name, self.refusing(getattr(os, name))))
            for name in FILE_CALLS:
                patches.enter_context(patch.object(Path, name, self.refusing(getattr(Path, name))))
            yield


class Background(InlineBackground):
    """Removes files at once; where that is refused they stay, as in a thread whose errors are logged."""

    def submit_later(self, delay_ms: int, work: Work) -> None:
        with suppress(OSError):
            work()


class TriedLog:
    """A log, and what is to be found in it: values by offset."""

    def __init__(self, directory: Path, random: Random, refusals: Refusals) -> None:
        self._directory = directory
        self._random = random
        self._refusals = refusals
        self._number = 0
        self.log = self._open(was_clean=True)
        self.values: dict[int, bytes] = {}

    def _open(self, **how: Any) -> PartitionLog:
        return open_log(self._directory, config=CONFIG, background=Background(), **how)

    @property
    def is_as_expected(self) -> bool:
        """Whether readers find what was acknowledged, and nothing else; a batch begins where the log does."""
        log = self.log
        found = dict(read_values(log)) if log.log_end_offset > log.log_start_offset else {}
        return found == {offset: value for offset, value in self.values.items() if offset >= log.log_start_offset}

    def step(self) -> None:
        """Do something to the log, which may be refused."""
        steps = (
            self.append,
            self.append,
            self.append,
            self.follow,
            self.follow,
            self.roll,
            self.truncate,
            self.retain,
            self.delete,
            self.flush,
        )
        with self._refusals.sometimes(), suppress(KafkaStorageError):
            self._random.choice(steps)()

    def append(self) -> None:
        value = self._next_value()
        self.values[append(self.log, value).base_offset] = value

    def follow(self) -> None:
        """Take a batch over from a leader, whose log may have a gap before it."""
        log, value = self.log, self._next_value()
        offset = log.log_end_offset + self._random.choice((0, 3, 7))
        batch = batch_of(value, base_offset=offset, leader_epoch=max(0, log.leader_epochs.latest))
        log.high_watermark = log.append_as_follower(batch, now_ms=NOW_MS)
        self.values[offset] = value

    def _next_value(self) -> bytes:
        self._number += 1
        return b"%d " % self._number + b"v" * self._random.choice((1, 1, 50, 200, 450))

    def roll(self) -> None:
        self.log.roll(NOW_MS)

    def truncate(self) -> None:
        offset = self._random.randint(self.log.log_start_offset, self.log.log_end_offset)
        self.log.truncate_to(offset, NOW_MS)
        self.values = {known: value for known, value in self.values.items() if known < offset}

    def retain(self) -> None:
        self.log.update_config(RETAINING)
        try:
            self.log.enforce_retention(NOW_MS)
        finally:
            self.log.update_config(CONFIG)

    def delete(self) -> None:
        log = self.log
        log.delete_records_before(self._random.randint(log.log_start_offset, log.log_end_offset))

    def flush(self) -> None:
        self.log.flush()

    def restart(self) -> None:
        """Stop the log, or have its process killed, and load it again."""
        was_clean = self._random.random() < 1 / 2
        if was_clean:
            self.log.close()
        else:
            self.log.abandon()
        former = self.log
        self.log = self._open(
            was_clean=was_clean, recovery_point=former.recovery_point, log_start_offset=former.log_start_offset
        )
        assert self.log.lost_from is None
        assert not problems_in(self._directory)


@pytest.mark.parametrize("seed", range(4))
def test_a_log_has_what_it_has_acknowledged_whatever_is_refused(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    refusals = Refusals(random)
    with refusals.installed():
        for run in range(RUNS):
            tried = TriedLog(tmp_path / str(run), random, refusals)
            for step in range(random.randrange(5, STEPS_MAX)):
                tried.step()
                if tried.log.failure is not None:
                    break  # a truncation was interrupted, and what is left of the log takes no more records
                assert tried.is_as_expected, (run, step)
                if random.random() < 1 / 8:
                    tried.restart()
                    assert tried.is_as_expected, (run, step)
            else:
                tried.restart()
                assert tried.is_as_expected, run
            tried.log.abandon()
