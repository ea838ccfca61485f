"""When an offset sync of a partition is due."""

from uuid import UUID

import pytest

from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.offset_map import OffsetMap
from ottla_mirror.offsets.offset_syncs import DELAY_S_MAX, OffsetSync, OffsetSyncs, read_offset_sync
from ottla_mirror.offsets.stored_copy import Session, StoredCopy

ORDERS = SourcePartition(topic="orders", topic_id=UUID(int=1), partition=2)
LAG_MAX = 100


class Copied:
    """A partition being copied, and its syncs."""

    def __init__(self) -> None:
        session = Session(
            producer_id=1,
            producer_epoch=0,
            source_topic_id=UUID(int=1),
            source_start_offset=10,
            target_topic_id=UUID(int=2),
            target_start_offset=0,
            replaces=None,
        )
        self.copy = StoredCopy(session=session, next_sequence=0, map=OffsetMap(10, 0))
        self.syncs = OffsetSyncs(LAG_MAX)

    def sync(self, now_s: float = 0.0) -> OffsetSync | None:
        self.syncs.note(ORDERS, self.copy)
        due = self.syncs.due(now_s)
        self.syncs.written(due, now_s)
        assert len(due) <= 1
        return due[0] if due else None


@pytest.fixture
def copied() -> Copied:
    return Copied()


def test_nothing_is_due_before_something_is_copied(copied: Copied) -> None:
    copied.copy.map.skip_to(15)
    assert copied.sync() is None


def test_the_first_is_due_at_once_and_says_where_the_last_record_is(copied: Copied) -> None:
    copied.copy.map.append(12, 0, 5)
    assert copied.sync() == OffsetSync("orders", 2, 16, 4)
    assert copied.sync() is None


def test_records_in_a_row_wait_until_they_are_many_or_late(copied: Copied) -> None:
    copied.copy.map.append(10, 0, 5)
    copied.sync()
    copied.copy.map.append(15, 5, LAG_MAX)
    assert copied.sync(1.0) is None
    assert copied.syncs.pending() == [OffsetSync("orders", 2, 14 + LAG_MAX, 4 + LAG_MAX)]
    assert copied.sync(DELAY_S_MAX) == OffsetSync("orders", 2, 14 + LAG_MAX, 4 + LAG_MAX)
    copied.copy.map.append(15 + LAG_MAX, 5 + LAG_MAX, LAG_MAX + 1)
    assert copied.sync(DELAY_S_MAX) is not None


def test_a_gap_is_told_at_once(copied: Copied) -> None:
    copied.copy.map.append(10, 0, 5)
    copied.sync()
    copied.copy.map.append(16, 5, 1)
    assert copied.sync() == OffsetSync("orders", 2, 16, 5)
    copied.copy.map.truncate_from(12)
    copied.copy.map.append(12, 6, 1)
    assert copied.sync() == OffsetSync("orders", 2, 12, 6)


def test_a_sync_is_read_as_it_was_written() -> None:
    sync = OffsetSync("orders", 2, 16, 4)
    assert read_offset_sync(*sync.entry()[:2]) == sync  # type: ignore[arg-type]
