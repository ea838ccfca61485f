"""Committed offsets at the target, at the edges of the logs and of what was copied."""

from uuid import UUID

import pytest

from ottla_core.client.cluster_metadata import NO_TOPIC_ID
from ottla_core.client.group.cluster_groups import LogBounds
from ottla_mirror.groups.translation import Translated, is_of, translated
from ottla_mirror.offsets.offset_map import OffsetMap
from ottla_mirror.offsets.stored_copy import Session, StoredCopy

SOURCE_ID, TARGET_ID = UUID(int=1), UUID(int=2)


def copy_of(offsets: OffsetMap, *, source_id: UUID = SOURCE_ID, target_id: UUID = TARGET_ID) -> StoredCopy:
    session = Session(
        producer_id=1,
        producer_epoch=0,
        source_topic_id=source_id,
        source_start_offset=0,
        target_topic_id=target_id,
        target_start_offset=0,
        replaces=None,
    )
    return StoredCopy(session=session, next_sequence=0, map=offsets)


@pytest.fixture
def copied() -> StoredCopy:
    """Source 100 to 109 at 0 to 9; 110 is a marker; 111 to 120 at 10 to 19; up to 122 all is dealt with."""
    offsets = OffsetMap(100, 0)
    offsets.append(100, 0, 10)
    offsets.append(111, 10, 10)
    offsets.skip_to(122)
    return copy_of(offsets)


@pytest.mark.parametrize(
    ("committed", "expected"),
    [
        (0, Translated(0, 0)),  # before the source's start
        (100, Translated(0, 0)),
        (109, Translated(9, 0)),
        (110, Translated(10, 0)),
        (111, Translated(10, 0)),
        (120, Translated(19, 0)),
        (121, Translated(20, 0)),  # at the end, behind a marker
        (122, Translated(20, 0)),
        (130, Translated(20, 8)),  # ahead of the copy
    ],
)
def test_offsets_are_translated_exactly(copied: StoredCopy, committed: int, expected: Translated) -> None:
    assert translated(committed, copied, LogBounds(0, 20)) == expected


def test_what_the_target_has_removed_is_not_pointed_to(copied: StoredCopy) -> None:
    assert translated(105, copied, LogBounds(8, 20)) == Translated(8, 0)


def test_no_offset_lies_behind_the_targets_end(copied: StoredCopy) -> None:
    """As after an election of a replica that lacked records: the lag would be negative."""
    assert translated(121, copied, LogBounds(0, 15)) == Translated(15, 0)


def test_an_empty_partition_is_translated_to_the_targets_start() -> None:
    assert translated(0, copy_of(OffsetMap(0, 0)), LogBounds(0, 0)) == Translated(0, 0)
    # All of it was removed at the source before the mirror came.
    assert translated(500, copy_of(OffsetMap(500, 0)), LogBounds(0, 0)) == Translated(0, 0)


def test_a_copy_of_a_former_life_of_a_topic_is_not_used(copied: StoredCopy) -> None:
    other = UUID(int=9)
    assert is_of(copied, SOURCE_ID, TARGET_ID)
    assert not is_of(copied, other, TARGET_ID)
    assert not is_of(copied, SOURCE_ID, other)
    assert is_of(copied, NO_TOPIC_ID, TARGET_ID)
