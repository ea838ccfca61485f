"""Copies of topics that are created anew hold their lives one behind the other; linked ones stop with the first."""

from tests.faults.history import Content
from tests.faults.mirrors.operated_topics import copy_problems, key_of


def life(number: int, count: int, *, begin: int = 0) -> list[Content]:
    return [Content(key_of(number), each, 0) for each in range(begin, count)]


def problems(written: list[int], found: list[Content], *, is_copied: bool = True) -> list[str]:
    return list(copy_problems("t-0", written, found, is_copied=is_copied))


def test_beginnings_of_former_lives_and_all_of_the_last_are_right():
    assert not problems([5], life(0, 5))
    assert not problems([5, 4, 3], [*life(0, 2), *life(2, 3)])
    assert not problems([5, 4], life(0, 3), is_copied=False)
    assert not problems([5], life(0, 5), is_copied=False)


def test_what_is_missing_doubled_or_in_another_order_is_found():
    assert problems([5], life(0, 4))
    assert problems([5], life(0, 4), is_copied=False)
    assert problems([5, 4], [*life(0, 5), *life(1, 4, begin=1)])
    assert problems([5, 4], [*life(1, 4), *life(0, 5)])
    assert problems([5, 4], [*life(0, 3), *life(0, 5, begin=4), *life(1, 4)])
    assert problems([2], [*life(0, 2), *life(0, 2, begin=1)])


def test_a_linked_topic_has_nothing_of_a_later_life():
    assert problems([5, 4], [*life(0, 5), *life(1, 1)], is_copied=False)
