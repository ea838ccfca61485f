"""The floor's log serves the bytes it was given, in whole batches, and notices damage."""

import os
from pathlib import Path

import pytest

from benchmarks.floor import BATCH_PREFIX, FloorLog
from benchmarks.small_requests import one_record_batch

BATCH = one_record_batch(b"x" * 100)


@pytest.fixture
def log(tmp_path: Path):
    log = FloorLog(tmp_path / "topic")
    for _ in range(3):
        log.append(memoryview(BATCH))
    yield log
    os.close(log.fd)


def test_batches_get_consecutive_offsets_and_keep_their_bytes(log: FloorLog):
    stored = os.pread(log.fd, 10_000, 0)
    assert len(stored) == 3 * len(BATCH)
    for number in range(3):
        batch = stored[number * len(BATCH) : (number + 1) * len(BATCH)]
        assert BATCH_PREFIX.unpack_from(batch) == (number, len(BATCH) - 12, 0)
        assert batch[BATCH_PREFIX.size :] == BATCH[BATCH_PREFIX.size :]


@pytest.mark.parametrize(
    ("offset", "batches_of_room", "expected"),
    [(0, 2.0, (0, 2)), (1, 1.5, (1, 1)), (2, 0.1, (2, 1)), (0, 99, (0, 3)), (3, 9, (0, 0))],
)
def test_whole_batches_that_fit_are_served_but_at_least_one(log: FloorLog, offset, batches_of_room, expected):
    position, size = log.locate(offset, int(batches_of_room * len(BATCH)))
    assert (position // len(BATCH), size / len(BATCH)) == expected


def test_a_damaged_batch_is_refused(log: FloorLog):
    damaged = BATCH[:-5] + b"y" + BATCH[-4:]
    with pytest.raises(AssertionError, match="damaged"):
        log.append(memoryview(damaged))
