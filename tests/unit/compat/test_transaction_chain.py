"""What is told of a chain of transactional copiers whose topics are not alike."""

from tests.compat.exactly_once.chain import differences
from tests.compat.exactly_once.records import Record

A, B, C = (Record("k", value) for value in "abc")


def test_topics_with_the_same_records_in_the_same_order_are_alike() -> None:
    assert differences([{0: [A, B], 1: [C]}, {0: [A, B], 1: [C]}, {0: [A, B], 1: [C]}]) == []


def test_what_is_lost_and_what_is_repeated_is_told_of_each_topic() -> None:
    lost, repeated = differences([{0: [A, B]}, {0: [A]}, {0: [A, B, B]}])
    assert lost == "topic 1, partition 0: 1 records of 2; lost ['b'], repeated []"
    assert repeated == "topic 2, partition 0: 3 records of 2; lost [], repeated ['b']"


def test_records_of_another_order_or_partition_are_told() -> None:
    assert len(differences([{0: [A, B], 1: [C]}, {0: [B, A], 1: [C]}])) == 1
    assert len(differences([{0: [A, B], 1: [C]}, {0: [A], 1: [C, B]}])) == 2
