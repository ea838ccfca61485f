"""The checker of consumer groups finds what it is there to find, and nothing else."""

import math

from tests.support.groups.group_history import (
    NOTHING_COMMITTED,
    GroupHistory,
    Place,
    commit_problems,
    ownership_problems,
    stable_again_s,
)

SESSION_S = 6.0
GROUP = "g"
PLACES = [Place(GROUP, 0), Place(GROUP, 1)]


def commit(
    history: GroupHistory, member: str, offset: int, asked_s: float, granted_s: float, partition: int = 0
) -> None:
    history.committed(GROUP, member, {partition: offset}, asked_s=asked_s, granted_s=granted_s)


def told(history: GroupHistory, offset: int, asked_s: float, answered_s: float) -> None:
    history.told(GROUP, {0: offset}, asked_s=asked_s, answered_s=answered_s)


def overlap_with(taken_s: float | None, given_s: float, proofs: tuple[float, ...] = ()) -> list[str]:
    """Member a owns from 10 on, b from `given_s` on."""
    history = GroupHistory()
    history.assigned(GROUP, "a", [0], 10.0)
    for at_s in proofs:
        commit(history, "a", 1, at_s, at_s + 0.1)
    if taken_s is not None:
        history.taken(GROUP, "a", [0], taken_s)
    history.assigned(GROUP, "b", [0], given_s)
    return ownership_problems(history, SESSION_S)


def test_a_partition_may_change_hands_once_it_was_given_up() -> None:
    assert overlap_with(taken_s=12.0, given_s=12.0) == []
    assert overlap_with(taken_s=12.0, given_s=12.5) == []


def test_a_partition_that_is_given_away_before_it_was_taken_is_a_problem() -> None:
    (problem,) = overlap_with(taken_s=12.0, given_s=11.9)
    assert "b was given it at 11.900 while a owned it until 12.000" in problem


def test_a_member_whose_session_has_run_out_owns_nothing_any_more() -> None:
    assert overlap_with(taken_s=None, given_s=16.1) == []
    assert overlap_with(taken_s=30.0, given_s=16.1) == []
    assert overlap_with(taken_s=30.0, given_s=15.9)


def test_every_acknowledged_commit_renews_the_session_from_when_it_was_asked_for() -> None:
    assert overlap_with(taken_s=None, given_s=20.9, proofs=(15.0,))
    assert overlap_with(taken_s=None, given_s=21.1, proofs=(15.0,)) == []


def test_a_commit_under_a_later_assignment_does_not_prolong_an_earlier_one() -> None:
    history = GroupHistory()
    history.assigned(GROUP, "a", [0], 10.0)
    history.taken(GROUP, "a", [0], 11.0)
    history.assigned(GROUP, "b", [0], 11.5)
    history.taken(GROUP, "b", [0], 12.0)
    history.assigned(GROUP, "a", [0], 12.5)
    commit(history, "a", 1, 13.0, 13.1)
    assert ownership_problems(history, SESSION_S) == []


def test_a_third_owner_is_held_against_the_longest_claim() -> None:
    history = GroupHistory()
    history.assigned(GROUP, "a", [0], 10.0)
    history.assigned(GROUP, "b", [0], 11.0)
    history.taken(GROUP, "b", [0], 12.0)
    history.assigned(GROUP, "c", [0], 13.0)
    assert len(ownership_problems(history, SESSION_S)) == 2


def test_partitions_and_groups_are_told_apart() -> None:
    history = GroupHistory()
    history.assigned(GROUP, "a", [0], 10.0)
    history.assigned(GROUP, "b", [1], 10.0)
    history.assigned("h", "c", [0, 1], 10.0)
    assert ownership_problems(history, SESSION_S) == []


def test_offsets_that_only_grow_are_fine_also_when_they_are_told_late() -> None:
    history = GroupHistory()
    told(history, NOTHING_COMMITTED, 0.0, 0.1)
    commit(history, "a", 5, 1.0, 1.2)
    told(history, NOTHING_COMMITTED, 1.1, 1.3)
    told(history, 5, 1.3, 1.4)
    commit(history, "b", 5, 2.0, 2.1)
    commit(history, "b", 9, 3.0, 3.1)
    told(history, 9, 3.2, 3.3)
    assert commit_problems(history) == []


def test_an_acknowledged_commit_that_is_not_told_later_is_a_problem() -> None:
    history = GroupHistory()
    commit(history, "a", 5, 1.0, 1.2)
    told(history, 4, 1.3, 1.4)
    (problem,) = commit_problems(history)
    assert "the coordinator told 4 at 1.300 after a committed 5" in problem


def test_an_offset_that_has_vanished_is_a_problem() -> None:
    history = GroupHistory()
    told(history, 3, 1.0, 1.1)
    told(history, NOTHING_COMMITTED, 1.2, 1.3)
    assert len(commit_problems(history)) == 1


def test_a_commit_below_an_earlier_one_is_a_problem_unless_they_were_under_way_together() -> None:
    together, after = GroupHistory(), GroupHistory()
    for history, asked_s in ((together, 1.1), (after, 1.3)):
        commit(history, "a", 5, 1.0, 1.2)
        commit(history, "b", 4, asked_s, 1.5)
    assert commit_problems(together) == []
    assert len(commit_problems(after)) == 1


def shared(history: GroupHistory, at_s: float) -> None:
    history.assigned(GROUP, "a", [0], at_s)
    history.assigned(GROUP, "b", [1], at_s)


def test_a_group_is_stable_again_with_the_last_partitions_first_commit() -> None:
    history = GroupHistory()
    shared(history, 0.0)
    commit(history, "a", 1, 9.0, 9.1)
    commit(history, "a", 2, 10.5, 11.0)
    commit(history, "b", 2, 12.0, 12.5, partition=1)
    assert stable_again_s(history, PLACES, fault_s=10.0) == 12.5


def test_a_commit_asked_for_before_the_fault_proves_nothing() -> None:
    history = GroupHistory()
    shared(history, 0.0)
    commit(history, "a", 2, 9.9, 11.0)
    commit(history, "b", 2, 12.0, 12.5, partition=1)
    assert stable_again_s(history, PLACES, fault_s=10.0) == math.inf


def test_a_rebalance_begins_it_anew() -> None:
    history = GroupHistory()
    shared(history, 0.0)
    commit(history, "a", 2, 10.1, 10.2)
    commit(history, "b", 2, 10.1, 10.2, partition=1)
    history.taken(GROUP, "a", [0], 11.0)
    assert stable_again_s(history, PLACES, fault_s=10.0) == math.inf
    history.assigned(GROUP, "b", [0], 12.0)
    assert stable_again_s(history, PLACES, fault_s=10.0) == math.inf
    commit(history, "b", 3, 12.5, 13.0)
    assert stable_again_s(history, PLACES, fault_s=10.0) == 13.0


def test_what_happens_after_the_end_does_not_matter() -> None:
    history = GroupHistory()
    shared(history, 0.0)
    for member, partition in (("a", 0), ("b", 1)):
        commit(history, member, 2, 10.1, 10.2, partition)
    history.taken(GROUP, "a", [0], 20.0)
    assert stable_again_s(history, PLACES, fault_s=10.0, end_s=15.0) == 10.2


def test_a_partition_without_an_owner_or_with_two_is_not_stable() -> None:
    history = GroupHistory()
    history.assigned(GROUP, "a", [0], 0.0)
    commit(history, "a", 2, 10.1, 10.2)
    assert stable_again_s(history, PLACES, fault_s=10.0) == math.inf
    history.assigned(GROUP, "a", [1], 0.0)
    history.assigned(GROUP, "b", [1], 0.0)
    for member in ("a", "b"):
        commit(history, member, 2, 10.1, 10.2, partition=1)
    assert stable_again_s(history, PLACES, fault_s=10.0) == math.inf
