"""Takeovers go on at what is committed, also where more had been copied, or found, before."""

from uuid import UUID

from ottla_mirror.copy.copy_settings import CopySettings
from ottla_mirror.copy.partition_copy import PartitionCopy
from ottla_mirror.copy.partition_start import PartitionStart, session_start
from ottla_mirror.copy.partition_work import PartitionWork
from ottla_mirror.copy.takeover import Pairing
from ottla_mirror.copy.transactions.transaction_rules import Producer
from ottla_mirror.copy.transactions.transactional_start import as_of_stored, begun_by, first_start
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.offset_map import OffsetMap
from ottla_mirror.offsets.stored_copy import Session, SessionName, StoredCopy

WORKER = UUID(int=9)


def work() -> PartitionWork:
    made = PartitionWork(SourcePartition(topic="t", topic_id=UUID(int=1), partition=0), "A.t", 0.0)
    made.target_topic_id = UUID(int=2)
    return made


def taken_over(epoch: int, before: StoredCopy | None) -> StoredCopy:
    start = 0 if before is None else None
    return begun_by(work(), Producer(7, epoch), start, before, target_end=0, worker=WORKER)


def copy_of(copied: StoredCopy) -> PartitionCopy:
    return PartitionCopy(copied, Pairing([], 0, copied.next_source_offset), WORKER)


def test_a_takeover_goes_on_where_the_committed_position_is() -> None:
    first = taken_over(0, None)
    first.map.append(0, 5, 10)
    following = taken_over(3, first)
    assert (following.next_source_offset, following.target_offset) == (10, 15)
    assert following.session.is_transactional
    assert following.session.replaces == SessionName(7, 0)
    assert following.map.translate(4) == (9, 0)
    assert following.map.holes() == []


def test_what_is_found_before_a_session_is_stored_is_said_of_the_stored_one() -> None:
    stored = taken_over(0, None)
    never_stored = taken_over(1, stored)
    found = PartitionStart(new_session_at=4, replaces=never_stored.session.name)
    assert as_of_stored(found, copy_of(never_stored), stored).replaces == stored.session.name


def test_what_is_found_of_a_session_that_another_has_replaced_stays_as_it_is() -> None:
    stored = taken_over(0, None)
    never_stored = taken_over(1, stored)
    others = taken_over(2, stored)
    found = PartitionStart(new_session_at=4, replaces=never_stored.session.name)
    assert as_of_stored(found, copy_of(never_stored), others) == found
    assert as_of_stored(PartitionStart(), copy_of(never_stored), stored) == PartitionStart()


def test_no_session_begins_behind_what_is_committed() -> None:
    """The source has another history from offset 8 on, and the transaction up to there was aborted."""
    stored = taken_over(0, None)
    stored.map.append(0, 5, 4)
    never_stored = taken_over(1, stored)
    for session in (stored.session, never_stored.session):
        copied = begun_anew_in(session, stored)
        copied.map.append(4, 9, 4)  # acknowledged, and not committed
        found = PartitionStart(new_session_at=8, replaces=session.name)
        start = session_start(stored, as_of_stored(found, copy_of(copied), stored), None)
        assert start is None, "offsets 4 to 7 are at the target in no transaction that counts"
        following = begun_by(work(), Producer(7, 3), start, stored, target_end=20, worker=WORKER)
        assert (following.next_source_offset, following.map.holes()) == (4, [])


def test_a_session_begins_before_or_at_what_is_committed() -> None:
    stored = taken_over(0, None)
    stored.map.append(0, 5, 4)
    for place in (2, 4):
        found = PartitionStart(new_session_at=place, replaces=stored.session.name)
        assert session_start(stored, as_of_stored(found, copy_of(stored), stored), None) == place


def test_a_copy_that_began_at_the_end_goes_on_there_though_nothing_was_stored() -> None:
    begun_work = work()
    settings = CopySettings(start="latest")
    assert first_start(begun_work, 50, {}, settings) == 50
    begun_work.replace_copy(copy_of(begun_by(begun_work, Producer(7, 0), 40, None, target_end=0, worker=WORKER)))
    assert first_start(begun_work, 50, {}, settings) == 40
    assert first_start(begun_work, 50, {begun_work.partition: taken_over(0, None)}, settings) == 50
    assert first_start(begun_work, 50, {}, CopySettings()) == 50


def begun_anew_in(session: Session, before: StoredCopy) -> StoredCopy:
    """The same position and map, which may go on."""
    offsets = OffsetMap(0, 5)
    offsets.append(0, 5, 4)
    assert offsets.source_end == before.next_source_offset
    return StoredCopy(session=session, next_sequence=before.next_sequence, map=offsets)
