"""What was found of a session that is not stored yet is true of the one that it was to replace."""

from uuid import UUID

from ottla_mirror.copy.partition_copy import PartitionCopy
from ottla_mirror.copy.partition_start import PartitionStart
from ottla_mirror.copy.partition_work import PartitionWork
from ottla_mirror.copy.takeover import Pairing
from ottla_mirror.copy.transactions.transaction_rules import Producer
from ottla_mirror.copy.transactions.transactional_start import as_of_stored, begun_by
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.stored_copy import SessionName, StoredCopy

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
