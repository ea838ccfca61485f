"""An end of committed records that goes back is named."""

from tests.faults.history import line
from tests.faults.transactions.stable_ends import STABLE_END, receding_ends


def told(*ends: int) -> list[str]:
    return list(receding_ends(line(STABLE_END, "topic", 0, each, 9) for each in ends))


def test_ends_that_only_grow_are_right() -> None:
    assert told(0, 3, 3, 7) == []


def test_each_step_back_is_named_once() -> None:
    assert told(0, 7, 3, 5, 8) == ["receded: the committed records of topic-0 ended at 7, and then at 3 (9)"]
