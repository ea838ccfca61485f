"""Where histories part: whatever they are, the answer is where a comparison of all epochs finds it."""

from hypothesis import given
from hypothesis import strategies as st

from ottla_operations.mirror.divergence import UNKNOWN, CommonUpTo, EpochEnd, next_step

History = list[int]
"""The leader epoch of each record."""

tails = st.lists(st.integers(1, 4), max_size=6)


def grown(start: History, steps: list[int], first: int) -> History:
    """A history that goes on with epochs of its own from `first` on, each a record or more."""
    found = list(start)
    for n, count in enumerate(steps):
        found += [first + 2 * n] * count
    return found


def answer(history: History, epoch: int) -> EpochEnd:
    """What a leader with this log answers."""
    known = [each for each in history if each <= epoch]
    if not known:
        return EpochEnd(UNKNOWN, UNKNOWN)
    largest = max(known)
    return EpochEnd(
        largest, len(history) if largest == history[-1] else history.index(next(e for e in history if e > largest))
    )


def found_end(there: History, here: History) -> int:
    epoch = max([0, *here])
    for _ in range(100):
        told = answer(there, epoch)
        step = next_step(told, answer(here, told.epoch))
        if isinstance(step, CommonUpTo):
            return step.end_offset
        assert step.epoch < epoch
        epoch = step.epoch
    raise AssertionError("it never ends")


@given(tails, tails, tails)
def test_it_is_where_both_have_other_epochs(both, there_steps, here_steps):
    shared = grown([], both, 0)
    first = max([0, *shared]) + 1
    there, here = grown(shared, there_steps, first + 100), grown(shared, here_steps, first)
    assert found_end(there, here) == len(shared)


@given(tails, st.integers(0, 30))
def test_a_log_that_is_shorter_is_common_to_its_end(both, missing):
    whole = grown([], both, 0)
    shorter = whole[: max(0, len(whole) - missing)]
    assert found_end(shorter, whole) == found_end(whole, shorter) == len(shorter)
