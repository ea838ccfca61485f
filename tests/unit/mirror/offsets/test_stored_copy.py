"""A new session goes on with what the one before has copied of the same history, and with nothing else."""

from dataclasses import replace
from uuid import UUID

from ottla_mirror.offsets.leader_epochs import EpochStart
from ottla_mirror.offsets.map_chunk import Run
from ottla_mirror.offsets.offset_map import Hole, OffsetMap, Translation
from ottla_mirror.offsets.stored_copy import Session, StoredCopy, begun

FIRST = Session(
    producer_id=7,
    producer_epoch=0,
    source_topic_id=UUID(int=1),
    source_start_offset=10,
    target_topic_id=UUID(int=2),
    target_start_offset=5,
    replaces=None,
)


def copied() -> StoredCopy:
    """Source offsets 10 to 29 are at 5 to 24 of the target."""
    offsets = OffsetMap(10, 5)
    offsets.append(10, 5, 20)
    return StoredCopy(session=FIRST, next_sequence=20, map=offsets, epochs=(EpochStart(2, 10), EpochStart(4, 20)))


def test_a_first_session_begins_with_an_empty_map() -> None:
    copy = begun(FIRST, None)
    assert (copy.next_source_offset, copy.target_offset, copy.next_sequence) == (10, 5, 0)
    assert not list(copy.map.runs())


def test_a_session_after_a_truncation_keeps_the_map_of_what_the_source_still_has() -> None:
    session = replace(FIRST, producer_epoch=1, source_start_offset=15, target_start_offset=30, replaces=FIRST.name)
    copy = begun(session, copied())
    assert list(copy.map.runs()) == [Run(10, 5, 5)]
    assert (copy.next_source_offset, copy.target_offset, copy.next_sequence) == (15, 30, 0)
    assert copy.epochs == (EpochStart(2, 10),)


def test_a_session_after_lost_records_goes_on_behind_them() -> None:
    session = replace(FIRST, producer_epoch=1, source_start_offset=40, target_start_offset=25, replaces=FIRST.name)
    before = copied()
    before.map.skip_to(40)
    copy = begun(session, before)
    assert list(copy.map.runs()) == [Run(10, 5, 20)]
    assert (copy.next_source_offset, copy.target_offset) == (40, 25)
    assert not copy.map.holes()


def test_a_session_at_a_target_that_has_lost_records_goes_on_at_its_end() -> None:
    session = replace(FIRST, producer_epoch=1, source_start_offset=22, target_start_offset=17, replaces=FIRST.name)
    copy = begun(session, copied())
    assert list(copy.map.runs()) == [Run(10, 5, 12)]
    assert (copy.next_source_offset, copy.target_offset) == (22, 17)
    copy.map.append(22, 17, 8)
    assert list(copy.map.runs()) == [Run(10, 5, 20)]


def test_what_the_former_session_may_have_copied_behind_its_position_is_a_hole() -> None:
    session = replace(FIRST, producer_epoch=1, source_start_offset=40, target_start_offset=35, replaces=FIRST.name)
    copy = begun(session, copied())
    assert copy.map.holes() == [Hole(0, 30, 25, 40, 35)]
    assert copy.map.translate(33) == Translation(25, 0)
    assert begun(session, None).map.translate(33) == Translation(0, 0)
    assert not copy.epochs, "in which epoch the source wrote what lies before the position is not known"


def test_a_session_of_a_topic_created_anew_knows_nothing_of_the_former_one() -> None:
    anew = replace(FIRST, producer_epoch=1, source_start_offset=0, target_start_offset=25, replaces=FIRST.name)
    for session in (replace(anew, source_topic_id=UUID(int=9)), replace(anew, target_topic_id=UUID(int=9))):
        copy = begun(session, copied())
        assert not list(copy.map.runs())
        assert (copy.next_source_offset, copy.target_offset, copy.next_sequence) == (0, 25, 0)
