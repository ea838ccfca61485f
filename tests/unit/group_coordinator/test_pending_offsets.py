"""What transactions are about to commit: the later position wins, whichever transaction ends first."""

import pytest

from ottla_group_coordinator.pending_offsets import PendingOffsets
from ottla_group_coordinator.records import OffsetCommitKey, OffsetCommitValue

PLACE = ("orders", 0)


@pytest.fixture
def pending() -> PendingOffsets:
    return PendingOffsets()


def key(group: str = "g", place: tuple[str, int] = PLACE) -> OffsetCommitKey:
    return OffsetCommitKey(group=group, topic=place[0], partition=place[1])


def add(pending: PendingOffsets, producer_id: int, offset: int, *, group: str = "g", partition: int = 0) -> None:
    value = OffsetCommitValue(offset=offset, commit_timestamp=1)
    pending.add(producer_id, key(group, ("orders", partition)), value)


def commit(pending: PendingOffsets, producer_id: int) -> dict[tuple[str, int], int]:
    return {(key.group, key.partition): value.offset for key, value in pending.commit(producer_id)}


def test_a_commit_gives_the_last_offset_of_each_partition(pending: PendingOffsets) -> None:
    add(pending, 1, 5)
    add(pending, 1, 7)
    add(pending, 1, 6, partition=1)
    add(pending, 1, 8, group="h")
    assert commit(pending, 1) == {("g", 0): 7, ("g", 1): 6, ("h", 0): 8}
    assert commit(pending, 1) == {}
    assert not pending
    assert not pending.group_ids


def test_an_abort_gives_nothing(pending: PendingOffsets) -> None:
    add(pending, 1, 5)
    add(pending, 2, 6)
    pending.abort(1)
    assert commit(pending, 1) == {}
    assert pending.of_group("g") == {PLACE: {2}}
    assert commit(pending, 2) == {("g", 0): 6}


def test_an_offset_that_was_committed_meanwhile_stays(pending: PendingOffsets) -> None:
    add(pending, 1, 5)
    add(pending, 1, 6, partition=1)
    pending.supersede("g", PLACE)
    assert PLACE in pending.of_group("g"), "it is not settled yet"
    assert not list(pending.values_of("g", PLACE))
    assert commit(pending, 1) == {("g", 1): 6}


def test_what_a_transaction_writes_after_that_counts(pending: PendingOffsets) -> None:
    add(pending, 1, 5)
    pending.supersede("g", PLACE)
    add(pending, 1, 6)
    assert commit(pending, 1) == {("g", 0): 6}


def test_of_two_transactions_the_one_that_wrote_last_wins_whichever_ends_first(pending: PendingOffsets) -> None:
    for earlier_ends_first in (True, False):
        add(pending, 1, 5)
        add(pending, 2, 6)
        if earlier_ends_first:
            assert commit(pending, 1) == {("g", 0): 5}
            assert commit(pending, 2) == {("g", 0): 6}
        else:
            assert commit(pending, 2) == {("g", 0): 6}
            assert PLACE in pending.of_group("g")
            assert commit(pending, 1) == {}
    assert not pending


def test_an_aborted_transaction_supersedes_nothing(pending: PendingOffsets) -> None:
    add(pending, 1, 5)
    add(pending, 2, 6)
    pending.abort(2)
    assert commit(pending, 1) == {("g", 0): 5}


def test_what_is_forgotten_is_forgotten_for_all_transactions(pending: PendingOffsets) -> None:
    add(pending, 1, 5)
    add(pending, 1, 6, partition=1)
    add(pending, 2, 7)
    pending.forget("g", PLACE)
    pending.forget("g", PLACE)
    pending.forget("nobody", PLACE)
    assert pending.of_group("g") == {("orders", 1): {1}}
    assert (commit(pending, 1), commit(pending, 2)) == ({("g", 1): 6}, {})
