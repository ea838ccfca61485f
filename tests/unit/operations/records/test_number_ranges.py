"""Line numbers, written compactly."""

from ottla_operations.records.number_ranges import NumberRanges


def ranges(*numbers: int) -> str:
    made = NumberRanges()
    for number in numbers:
        made.add(number)
    return str(made)


def test_neighbours_become_a_range():
    assert ranges(3, 4, 5, 9) == "3-5, 9"


def test_the_order_of_arrival_does_not_matter():
    assert ranges(9, 4, 3, 5) == "3-5, 9"


def test_nothing_is_written_as_nothing():
    assert ranges() == ""
