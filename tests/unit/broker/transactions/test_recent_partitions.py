"""What is remembered of the partitions in which transactions of a producer have begun."""

import pytest

from ottla_broker.transactions import recent_partitions
from ottla_broker.transactions.recent_partitions import RecentPartitions
from ottla_core.topic_partition import TopicPartition

P0, P1, P2, P3 = (TopicPartition("p", index) for index in range(4))


def test_where_a_transaction_begins_anew_the_other_partitions_of_the_last_one_are_returned() -> None:
    recent = RecentPartitions()
    assert [set(recent.begin(7, [each])) for each in (P0, P1, P2)] == [set(), set(), set()]
    assert set(recent.begin(7, [P1])) == {P0, P2}
    recent.go_on(7, P2)
    assert set(recent.begin(7, [P3])) == set()
    assert set(recent.begin(7, [P1, P3])) == {P2}
    assert set(recent.begin(8, [P1])) == set()


def test_neither_producers_nor_partitions_grow_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_partitions, "PRODUCERS_MAX", 2)
    monkeypatch.setattr(recent_partitions, "PARTITIONS_MAX", 3)
    recent = RecentPartitions()
    for producer_id in range(3):
        recent.begin(producer_id, [P0])
        recent.go_on(producer_id, P1)
    assert [set(recent.begin(producer_id, [P0])) for producer_id in (2, 1, 0)] == [{P1}, {P1}, set()]

    recent.begin(0, [P1, P2])
    recent.go_on(0, P3)
    recent.begin(0, [P3])
    assert set(recent.begin(0, [P0])) == {P1, P2}
