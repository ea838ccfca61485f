"""The checks of what jobs on Spark deliver notice what they are for."""

import pytest

from tests.support.spark.spark_faults_delivery import (
    Arrived,
    Place,
    Row,
    copy_problems,
    input_problems,
    once_problems,
    repeat_count,
    table_problems,
)

A0, A1, A2, B0 = Row("a", 0, "x"), Row("a", 1, "y"), Row("a", 2, "z"), Row("b", 0, "x")
TOPIC = {Place(0, 5): A0, Place(0, 6): A1, Place(0, 8): A2, Place(1, 0): B0}
ROWS = [Arrived(place, row) for place, row in TOPIC.items()]
FIRST, SECOND, THIRD, OTHER = ROWS


def test_a_table_with_every_record_once_in_any_order_is_well() -> None:
    assert not list(table_problems(reversed(ROWS), TOPIC))


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([FIRST, THIRD, OTHER], "table: 1 records are missing, such as 0@6"),
        ([*ROWS, SECOND], "table: 1 records are there more than once, such as 0@6"),
        ([*ROWS, Arrived(Place(2, 0), A0)], "table: 1 records are not in the input, such as 2@0"),
        ([FIRST, SECOND, THIRD, Arrived(Place(1, 0), A0)], "table: 1 records differ from the input, such as 1@0"),
        ([], "table: 4 records are missing, such as 0@5, 0@6, 0@8"),
    ],
)
def test_a_table_that_is_wrong_is_noticed(rows: list[Arrived], problem: str) -> None:
    assert list(table_problems(rows, TOPIC)) == [problem]


@pytest.mark.parametrize(
    "records",
    [
        [FIRST, SECOND, THIRD],
        [FIRST, SECOND, FIRST, SECOND, THIRD],
        [FIRST, SECOND, THIRD, FIRST, SECOND, THIRD],
        [FIRST, FIRST, SECOND, FIRST, THIRD],
    ],
)
def test_a_copy_that_begins_again_somewhere_before_its_end_is_well(records: list[Arrived]) -> None:
    assert not list(copy_problems({7: records, 8: [OTHER]}, TOPIC))


@pytest.mark.parametrize(
    ("records", "problem"),
    [
        ([SECOND, FIRST, THIRD], "copy: in partition 7, a has 1 before 0"),
        ([FIRST, THIRD, SECOND], "copy: in partition 7, a has 2 before 1"),
        ([FIRST, THIRD, FIRST, SECOND, THIRD], "copy: in partition 7, a has 2 before 1"),
        ([FIRST, SECOND, FIRST, SECOND], "copy: 1 records are missing, such as 0@8"),
        ([*ROWS[:3], Arrived(Place(0, 7), A0)], "copy: 1 records are not in the input, such as 0@7"),
        ([FIRST, SECOND, THIRD, Arrived(Place(0, 8), A0)], "copy: 1 records differ from the input, such as 0@8"),
    ],
)
def test_a_copy_that_is_wrong_is_noticed(records: list[Arrived], problem: str) -> None:
    assert list(copy_problems({7: records, 8: [OTHER]}, TOPIC)) == [problem]


def test_a_key_in_two_partitions_is_noticed() -> None:
    problems = list(copy_problems({7: [FIRST, SECOND], 8: [OTHER, THIRD]}, TOPIC))
    assert problems[0] == "copy: a is in partitions [7, 8], so that its records have no order"


def test_numbers_that_the_input_never_had_do_not_count_as_skipped() -> None:
    topic = {Place(0, 0): A0, Place(0, 1): A2}
    assert not list(copy_problems({0: [Arrived(place, row) for place, row in topic.items()]}, topic))


def test_repeats_are_counted() -> None:
    assert repeat_count({7: [FIRST, SECOND, FIRST], 8: [OTHER]}) == 1


def test_an_input_is_well_if_it_has_more_than_was_acknowledged() -> None:
    assert not list(input_problems({Place(0, 5): A0}, TOPIC))


@pytest.mark.parametrize(
    ("topic", "problem"),
    [
        ({Place(0, 6): A0}, "input: 1 acknowledged records are not where they were"),
        ({Place(0, 5): A0, Place(0, 6): A2, Place(0, 7): A1}, "input: a is out of order or has a number twice"),
        ({Place(0, 5): A0, Place(1, 6): A0}, "input: a is out of order or has a number twice"),
    ],
)
def test_an_input_that_is_wrong_is_noticed(topic: dict[Place, Row], problem: str) -> None:
    (found,) = input_problems({Place(0, 5): A0}, topic)
    assert found.startswith(problem)


def test_a_repeat_in_a_topic_that_is_written_exactly_once_is_noticed() -> None:
    assert not list(once_problems({0: [FIRST, SECOND], 1: [OTHER]}))
    repeated = {0: [FIRST, SECOND], 1: [OTHER, SECOND]}
    assert list(once_problems(repeated)) == ["once: 1 records are there more than once, such as 0@6"]
