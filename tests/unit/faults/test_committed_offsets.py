"""Commits and answers about them must fit the order of the commits in the log."""

from tests.faults.committed_offsets import CommitEvent, CommitPlace, offset_problems

PLACE = CommitPlace("group", 0)


def event(offset: int, asked_s: float, ended_s: float, what: str = "told") -> CommitEvent:
    return CommitEvent(PLACE, offset, asked_s, ended_s, what)


def problems(log: list[int], *events: CommitEvent) -> list[str]:
    return offset_problems(events, {PLACE: log})


def test_events_in_the_order_of_the_log_are_no_problem():
    assert (
        problems([3, 5, 5, 8], event(-1, 0, 1), event(3, 2, 3), event(5, 4, 5), event(5, 6, 7), event(8, 8, 9)) == []
    )


def test_events_that_overlap_may_be_in_either_order():
    assert problems([3, 5], event(5, 0, 10), event(3, 1, 9)) == []


def test_an_offset_may_go_back_where_a_late_commit_has_taken_it_back_in_the_log():
    assert problems([86, 114, 86, 116], event(114, 0, 1), event(86, 2, 3), event(116, 4, 5)) == []


def test_a_granted_commit_that_is_not_in_the_log_is_told():
    assert problems([3], event(3, 0, 1), event(5, 2, 3, "granted")) == [
        "group, partition 0: granted 5, which is not in the log (told 3)"
    ]


def test_an_answer_that_is_older_than_an_earlier_one_is_told():
    assert problems([3, 5], event(5, 0, 1, "granted"), event(3, 2, 3)) == [
        "group, partition 0: told 3, which is in the log, but before what was told earlier (granted 5)"
    ]


def test_offsets_that_vanish_are_told():
    assert problems([3], event(3, 0, 1, "granted"), event(-1, 2, 3)) == [
        "group, partition 0: told -1, which is in the log, but before what was told earlier (granted 3)"
    ]


def test_a_group_without_commits_in_the_log_may_only_be_told_nothing():
    assert offset_problems([event(-1, 0, 1)], {}) == []
    assert offset_problems([event(0, 0, 1)], {}) == ["group, partition 0: told 0, which is not in the log"]
