"""Where to begin again when the target has lost what it had."""

from uuid import UUID

import pytest

from ottla_mirror.copy.beginning import Beginning, cut_of, source_offset_of
from ottla_mirror.offsets.offset_map import OffsetMap
from ottla_mirror.offsets.stored_copy import Session, SessionName, StoredCopy


def test_the_first_record_that_the_target_lacks_is_found():
    offset_map = OffsetMap(10, 0)
    offset_map.append(10, 0, 5)
    offset_map.append(20, 7, 5)
    offset_map.skip_to(30)
    assert source_offset_of(offset_map, 0) == 10
    assert source_offset_of(offset_map, 3) == 13
    assert source_offset_of(offset_map, 5) == 20
    assert source_offset_of(offset_map, 9) == 22
    assert source_offset_of(offset_map, 12) == 30


@pytest.mark.parametrize(
    ("target_end", "stored_at", "of", "cut_at"),
    [
        (40, -1, 9, None),
        (39, -1, 9, 39),
        (60, 12, 9, 12),
        (30, 12, 9, 12),
        (10, 12, 9, 10),
        (60, 12, 8, None),
    ],
)
def test_the_target_has_lost_what_is_behind_its_end_or_was_replaced(
    target_end: int, stored_at: int, of: int, cut_at: int | None
):
    offset_map = OffsetMap(0, 0)
    offset_map.append(0, 0, 40)
    session = Session(
        producer_id=9, producer_epoch=0, source_topic_id=UUID(int=1), source_start_offset=0,
        target_topic_id=UUID(int=2), target_start_offset=0, replaces=None,
    )  # fmt: skip
    copied = StoredCopy(session=session, next_sequence=40, map=offset_map)
    beginning = Beginning(replaces=SessionName(of, 0), target_cut_at=stored_at)
    assert cut_of(copied, beginning, target_end) == cut_at
