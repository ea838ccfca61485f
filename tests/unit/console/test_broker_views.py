"""Brokers with their load, the replicas of one, preferred elections."""

from ottla_console.views.broker_table import broker_rows, held_rows
from ottla_console.views.preferred_elections import elections, plan_digest, possible
from ottla_core.topic_partition import TopicPartition
from ottla_operations.activity.activity import Activity, BrokerActivity
from ottla_operations.cluster.cluster_view import BrokerView, ClusterView, PartitionView, ReplicaOnDisk


def view(*partitions: tuple[int | None, tuple[int, ...], tuple[int, ...]]) -> ClusterView:
    """Brokers 1 and 2, and a topic with partitions of a leader, replicas and in-sync replicas."""
    names = [TopicPartition("Flights", number) for number in range(len(partitions))]
    brokers = {1: BrokerView(1, "a", 9092, "east"), 2: BrokerView(2, "b", 9092, None)}
    found = {name: PartitionView(name, *each) for name, each in zip(names, partitions, strict=True)}
    return ClusterView("id", brokers, found)


CLUSTER = view((1, (1, 2), (1, 2)), (1, (2, 1), (1, 2)), (1, (2, 1), (1,)), (None, (3,), (3,)))


def test_brokers_show_what_they_lead_and_have_also_one_that_is_not_in_service() -> None:
    one, two, three = broker_rows(CLUSTER, None)
    assert (one.address, one.rack, one.leaders, one.preferred, one.replicas, one.behind) == (
        "a:9092",
        "east",
        3,
        1,
        3,
        0,
    )
    assert (two.address, two.leaders, two.preferred, two.replicas, two.behind) == ("b:9092", 0, 2, 3, 1)
    assert (three.address, three.leaders, three.preferred, three.replicas) == (None, 0, 1, 1)
    assert one.log_bytes is one.written_bytes_per_s is one.free_bytes is None


def test_a_broker_shows_its_rates_and_sizes_once_they_were_looked_at() -> None:
    seen = BrokerActivity(
        broker=1, rack="east", leads=3, replicas=3, behind=0, written_bytes_per_s=2.5, log_bytes=70, free_bytes=9
    )
    one, two, _ = broker_rows(CLUSTER, Activity(cluster_id="id", brokers=(seen,), topics=(), groups=(), not_seen=()))
    assert (one.written_bytes_per_s, one.log_bytes, one.free_bytes) == (2.5, 70, 9)
    assert two.log_bytes is None


def test_the_largest_replicas_of_a_broker_come_first() -> None:
    name = TopicPartition("Flights", 2)
    copies = [ReplicaOnDisk(name, 100, behind=7), ReplicaOnDisk(TopicPartition("Flights", 0), 1, is_future=True)]
    rows = held_rows(CLUSTER, 2, copies, "flight")
    assert [(each.name.partition, each.log_bytes, each.behind) for each in rows] == [
        (2, 100, 7),
        (0, None, None),
        (1, None, None),
    ]
    assert [(each.leads, each.is_preferred, each.in_sync) for each in rows] == [
        (False, True, False),
        (False, False, True),
        (False, True, True),
    ]
    assert held_rows(CLUSTER, 2, None, "absent") == []


def test_elections_say_which_of_them_would_change_nothing() -> None:
    rows = elections(CLUSTER)
    assert [(each.name.partition, each.leader, each.preferred, each.hindrance) for each in rows] == [
        (1, 1, 2, None),
        (2, 1, 2, "broker 2 is not in sync"),
        (3, None, 3, "broker 3 is not in service"),
    ]
    assert [each.name.partition for each in possible(rows)] == [1]


def test_elections_are_others_once_a_leader_or_a_preferred_replica_is() -> None:
    plan = plan_digest(elections(view((1, (2, 1), (1, 2)))))
    assert plan == plan_digest(elections(view((1, (2, 1), (2, 1)))))
    assert plan != plan_digest(elections(view((None, (2, 1), (1, 2)))))
    assert plan != plan_digest(elections(view((1, (2, 1), (1, 2)), (1, (2, 1), (1, 2)))))
    assert plan != plan_digest(elections(view((2, (2, 1), (1, 2)))))
