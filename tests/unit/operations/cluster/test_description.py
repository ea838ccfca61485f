"""What is told of a cluster and of a plan."""

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import (
    BrokerView,
    ClusterView,
    Move,
    PartitionView,
    ReplicaOnDisk,
    partition_sizes,
)
from ottla_operations.cluster.description import describe_cluster
from ottla_operations.cluster.plan_summary import BrokerShare, change_rows, summarize

T0, T1, T2 = (TopicPartition("t", index) for index in range(3))
VIEW = ClusterView(
    "c",
    {1: BrokerView(1, "h", 9092, "a"), 2: BrokerView(2, "h", 9093, "b")},
    {
        T0: PartitionView(T0, 1, (1, 2), (1, 2)),
        T1: PartitionView(T1, 2, (1, 2), (2,)),
        T2: PartitionView(T2, None, (3,), (3,)),
    },
)
DISKS = {1: [ReplicaOnDisk(T0, 100), ReplicaOnDisk(T0, 40, is_future=True)], 2: [ReplicaOnDisk(T0, 70)]}


def test_brokers_are_told_with_what_they_have_and_those_that_are_away_too():
    document = describe_cluster(VIEW, DISKS, {}, 1, (1, 2))
    assert document["brokers"] == [
        {"broker": 1, "address": "h:9092", "rack": "a", "in_service": True, "replicas": 2, "in_sync": 1, "leaders": 1,
         "preferred_leaders": 2, "disk_bytes": 140},
        {"broker": 2, "address": "h:9093", "rack": "b", "in_service": True, "replicas": 2, "in_sync": 2, "leaders": 1,
         "preferred_leaders": 0, "disk_bytes": 70},
        {"broker": 3, "address": None, "rack": None, "in_service": False, "replicas": 1, "in_sync": 1, "leaders": 0,
         "preferred_leaders": 1, "disk_bytes": None},
    ]  # fmt: skip


def test_partitions_that_are_not_as_they_should_be_are_told():
    document = describe_cluster(VIEW, DISKS, {T0: Move((1, 2, 3), (3,), (1,))}, None, ())
    assert [each["partition"] for each in document["under_replicated"]] == [1]
    assert [each["partition"] for each in document["offline"]] == [2]
    assert document["not_led_by_preferred"] == 1
    assert document["moving"] == [
        {"topic": "t", "partition": 0, "replicas": [1, 2, 3], "adding": [3], "removing": [1]}
    ]


def test_a_partition_is_as_big_as_its_biggest_copy():
    assert partition_sizes(DISKS) == {T0: 100}


def test_a_plan_is_summed_up_by_what_it_copies_and_what_brokers_have_then():
    sizes = {T0: 100, T1: 10}
    summary = summarize(VIEW, {T0: (2, 1), T1: (3, 2)}, sizes)
    assert (summary.copies, summary.copied_bytes, summary.leader_changes) == (1, 10, 2)
    assert summary.before[1] == BrokerShare(2, 2, 110)
    assert summary.after == {1: BrokerShare(1, 0, 100), 2: BrokerShare(2, 1, 110), 3: BrokerShare(2, 2, 10)}
    assert change_rows(VIEW, summary, sizes) == [("t-0", "1,2", "2,1", 100, 0), ("t-1", "1,2", "3,2", 10, 1)]
    assert summary.to_document()["plan"]["partitions"][0] == {"topic": "t", "partition": 0, "replicas": [2, 1]}
