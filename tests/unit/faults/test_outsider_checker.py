"""Whoever has no right gets nothing done, and whoever has it is never refused, as far as every broker knows."""

import pytest

from tests.faults.access.outsider_checker import (
    DONE,
    READ,
    REFUSED,
    WRITE,
    Attempt,
    Window,
    count_attempts,
    outsider_problems,
)

WINDOWS = [Window(False, 10, 20), Window(True, 30, 40)]
TRIED = [
    Attempt(WRITE, 0, 11, 12, REFUSED),
    Attempt(READ, 1, 13, 14, REFUSED),
    Attempt(WRITE, 2, 31, 32, DONE),
    Attempt(READ, 3, 33, 34, DONE),
]
STORED = {2}


def problems(*more: Attempt, stored: set[int] = STORED) -> list[str]:
    return list(outsider_problems([*TRIED, *more], WINDOWS, stored))


def test_what_is_as_it_must_be_is_no_problem() -> None:
    assert problems() == []
    assert count_attempts(TRIED, WINDOWS) == {"with the right": 2, "refused without it": 2}


@pytest.mark.parametrize("what", [WRITE, READ])
def test_what_is_granted_without_the_right_is_a_problem(what: str) -> None:
    (problem,) = problems(Attempt(what, 8, 15, 16, DONE), stored={2, 8})
    assert problem == (
        f"outsider: its {what} number 8 was granted 5.000 s after every broker had acknowledged that it has no right"
    )


@pytest.mark.parametrize("what", [WRITE, READ])
def test_a_refusal_of_what_it_may_do_is_a_problem(what: str) -> None:
    (problem,) = problems(Attempt(what, 8, 35, 36, REFUSED))
    assert problem.endswith("was refused 5.000 s after every broker had acknowledged that it has the right")


def test_a_record_that_was_refused_and_stands_there_is_a_problem_at_any_time() -> None:
    (problem,) = problems(Attempt(WRITE, 8, 25, 26, REFUSED), stored={2, 8})
    assert problem == "outsider: its write number 8 was refused, and its record stands there"


def test_a_record_that_was_acknowledged_and_is_gone_is_a_problem() -> None:
    assert problems(stored=set()) == ["outsider: its write number 2 was acknowledged, and its record is not there"]


@pytest.mark.parametrize("outcome", [DONE, REFUSED])
@pytest.mark.parametrize(("begun_s", "ended_s"), [(9, 11), (19, 21), (21, 29), (19, 31)])
def test_what_is_asked_for_while_some_may_not_know_goes_either_way(
    begun_s: float, ended_s: float, outcome: str
) -> None:
    stored = {2, 8} if outcome == DONE else {2}
    assert problems(Attempt(WRITE, 8, begun_s, ended_s, outcome), stored=stored) == []


def test_what_nobody_has_answered_may_stand_there_or_not() -> None:
    unanswered = Attempt(WRITE, 8, 15, 16, "unanswered")
    assert problems(unanswered) == problems(unanswered, stored={2, 8}) == []


def test_a_trial_in_which_nothing_was_tried_says_nothing() -> None:
    assert list(outsider_problems([], WINDOWS, set())) == [
        "outsider: no write was answered while it had the right",
        "outsider: no read was answered while it had the right",
        "outsider: no write was answered while it had no right",
        "outsider: no read was answered while it had no right",
    ]
