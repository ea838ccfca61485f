"""A swap that ends after any of its file operations is undone or finished by the next start, which may end too."""

import errno
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from ottla_broker.log.compaction.segment_cleaning import MappedKeys, NoPace, clean
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.segments.segment_swap import (
    SwapInterrupted,
    carry_out,
    finish_swaps,
    remove_cleaned,
    swap_steps,
)
from ottla_core.wire.records import Record
from tests.support.broker.compactions import LIMITS, compacted, last_values, put, records_of
from tests.support.broker.partition_logs import NOW_MS, open_log, problems_in

STEPS = 3 + 3 * 3 + 3
COMMITTED_AFTER = 3
"""Then `.log.swap` is there."""
LEFT = 14
"""Records after the swap: the last one of each key, and what is in the active segment."""


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """A log of three inactive segments and an active one, with a cleaned segment beside them."""
    log = log_in(tmp_path)
    for number in range(3):
        for more in range(4):
            put(log, (b"key", b"%d" % number * 90), (b"%d-%d" % (number, more), b"kept"))
        log.roll(NOW_MS)
    put(log, (b"key", b"active"))
    cleaning = log.compaction.begin(log.compaction.assess(NOW_MS), LIMITS, NOW_MS)
    results = [result for result in clean(cleaning.job, NoPace()) if not isinstance(result, MappedKeys)]
    assert [result.replaced_count for result in results] == [3]
    log.abandon()
    return log.directory


def log_in(directory: Path) -> PartitionLog:
    config = compacted(segment_bytes=10_000, index_interval_bytes=100)
    return open_log(directory / "flights-0", config=config)


def contents(directory: Path, *without: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix not in without}


def steps_in(directory: Path) -> list[tuple[Path, Path]]:
    bases = sorted(int(path.stem) for path in directory.glob("*.log"))
    return swap_steps(directory, bases[0], bases[:-1])


def expected(directory: Path, *, swapped: bool) -> dict[str, bytes]:
    """What is in the directory before and after, apart from files that wait to be removed."""
    before = contents(directory)
    if not swapped:
        return {name: data for name, data in before.items() if not name.endswith(".cleaned")}
    replaced = {source.name for source, target in steps_in(directory) if target.suffix == ".deleted"}
    after = {name: data for name, data in before.items() if name not in replaced}
    return {name.removesuffix(".cleaned"): data for name, data in after.items()}


def test_the_moment_that_counts_is_when_the_log_file_waits_under_its_swap_name(prepared: Path) -> None:
    steps = steps_in(prepared)
    assert len(steps) == STEPS
    assert [target.name for _, target in steps].index("00000000000000000000.log.swap") == COMMITTED_AFTER - 1


@pytest.mark.parametrize("done", range(STEPS + 1))
def test_a_start_undoes_or_finishes_a_swap_that_ended_at_any_step(prepared: Path, done: int) -> None:
    wanted = expected(prepared, swapped=done >= COMMITTED_AFTER)
    carry_out(steps_in(prepared)[:done])
    finish_swaps(prepared)
    assert contents(prepared, ".deleted") == wanted
    reopened = log_in(prepared.parent)
    assert reopened.log_end_offset == 25
    reopened.close()
    assert problems_in(prepared) == []


@pytest.mark.parametrize("operations", range(12))
@pytest.mark.parametrize("done", [0, 1, 2, 3, 5, 8, 12, 13, 14])
def test_a_start_may_end_at_any_step_too(
    prepared: Path, done: int, operations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = expected(prepared, swapped=done >= COMMITTED_AFTER)
    carry_out(steps_in(prepared)[:done])
    with monkeypatch.context() as patched:
        stop_after(operations, patched)
        with suppress(Stopped):
            finish_swaps(prepared)
    finish_swaps(prepared)
    assert contents(prepared, ".deleted") == wanted


@pytest.mark.parametrize("done", range(COMMITTED_AFTER, STEPS - 2))
def test_a_start_does_not_fail_for_a_damaged_segment_whose_swap_was_interrupted(prepared: Path, done: int) -> None:
    carry_out(steps_in(prepared)[:done])
    cleaned = prepared / f"{0:020d}.log.swap"
    cleaned.write_bytes(cleaned.read_bytes()[:-40])
    found = log_in(prepared.parent)
    assert (found.log_end_offset, found.lost_from is not None) == (25, True)
    found.abandon()


@pytest.mark.parametrize("done", range(STEPS))
def test_a_rename_that_fails_undoes_those_before(prepared: Path, done: int) -> None:
    before = contents(prepared)
    left = done

    def failing(source: Path, target: Path) -> None:
        nonlocal left
        if not left:
            raise OSError(errno.EIO, "no")
        left -= 1
        source.rename(target)

    with pytest.raises(OSError, match="no"):
        carry_out(steps_in(prepared), failing)
    assert contents(prepared) == before


@pytest.mark.parametrize(("done", "undone"), [(done, undone) for done in range(STEPS) for undone in range(done)])
def test_a_swap_that_can_neither_be_done_nor_undone_is_seen_to_by_the_next_start(
    prepared: Path, done: int, undone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is lost, be the old segments the log then or the new one."""
    former = prepared.parent / "former"
    shutil.copytree(prepared, former / prepared.name)
    kept = records_in(former)
    calls, rename = 0, Path.rename

    def failing(source: Path, target: Path) -> None:
        nonlocal calls
        calls += 1
        if calls in (done + 1, done + undone + 2):
            raise OSError(errno.EIO, "no")
        rename(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", failing)
        with pytest.raises(SwapInterrupted, match="no"):
            carry_out(steps_in(prepared), failing)
    found = records_in(prepared.parent)
    assert last_values(found) == last_values(kept)
    assert len(found) == len(kept) or len(found) == LEFT
    assert problems_in(prepared) == []


def records_in(directory: Path) -> list[Record]:
    """All that is found in the log at a start."""
    log = log_in(directory)
    found = records_of(log)
    log.close()
    return found


def test_a_round_that_is_given_up_leaves_nothing(prepared: Path) -> None:
    wanted = expected(prepared, swapped=False)
    remove_cleaned(prepared)
    assert contents(prepared) == wanted


class Stopped(BaseException):
    """The process ends here."""


def stop_after(operations: int, patched: pytest.MonkeyPatch) -> None:
    left = operations
    originals = {"rename": Path.rename, "unlink": Path.unlink}

    def counted(name: str, path: Path, *arguments: object, **options: object) -> None:
        nonlocal left
        if path.exists():
            if not left:
                raise Stopped
            left -= 1
        originals[name](path, *arguments, **options)

    def patch(names: Sequence[str]) -> None:
        for name in names:
            patched.setattr(Path, name, lambda path, *a, _name=name, **o: counted(_name, path, *a, **o))

    patch(["rename", "unlink"])
