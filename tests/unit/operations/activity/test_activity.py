"""What `ottla top` makes of two looks at a cluster, and how it fits on a screen."""

from typing import Any

from ottla.top.screen import screen
from ottla_core.topic_partition import TopicPartition
from ottla_operations.activity.activity import activity
from ottla_operations.activity.sample import GroupSample, Sample
from ottla_operations.cluster.cluster_view import (
    BrokerView,
    ClusterView,
    LogDirectoryView,
    PartitionView,
    ReplicaOnDisk,
)

ORDERS, PRICES = TopicPartition("orders", 0), TopicPartition("prices", 0)
PARTITIONS = {
    ORDERS: PartitionView(ORDERS, 1, (1, 2), (1,)),
    PRICES: PartitionView(PRICES, None, (2,), ()),
}


def sample(at_s: float, *, end: int, committed: int, size: int = 0, **others: Any) -> Sample:
    brokers = {each: BrokerView(each, "127.0.0.1", 9091 + each, "a" if each == 1 else None) for each in (1, 2)}
    return Sample(
        at_s=at_s,
        view=ClusterView("id", brokers, PARTITIONS),
        disks={1: [ReplicaOnDisk(ORDERS, size)]},
        directories={1: [LogDirectoryView("/a", 500, 1000), LogDirectoryView("/b", -1, -1, has_failed=True)]},
        ends={("orders", 0): end},
        groups={"billing": GroupSample(state="stable", committed={("orders", 0): committed, ("gone", 0): 7})},
        **others,
    )


def test_rates_are_what_grew_in_the_time_between() -> None:
    found = activity(sample(10, end=100, committed=0, size=1000), sample(12, end=200, committed=150, size=5000))

    one, two = found.brokers
    assert (one.leads, one.replicas, one.behind, one.written_bytes_per_s, one.free_bytes) == (1, 1, 0, 2000, 500)
    assert (two.leads, two.replicas, two.behind, two.log_bytes, two.free_bytes) == (0, 2, 2, None, None)
    orders, prices = found.topics
    assert (orders.topic, orders.records_per_s, orders.log_bytes, orders.under_replicated) == ("orders", 50, 5000, 1)
    assert (prices.topic, prices.offline) == ("prices", 1)
    (billing,) = found.groups
    assert (billing.lag, billing.records_per_s, billing.seconds_left) == (50, 75, 2)


def test_a_group_that_is_slower_than_its_producers_never_catches_up() -> None:
    (billing,) = activity(sample(1, end=100, committed=0), sample(2, end=200, committed=50)).groups

    assert billing.seconds_left is None
    assert "never" in screen(activity(sample(1, end=100, committed=0), sample(2, end=200, committed=50)), title="x")


def test_what_became_smaller_or_is_new_has_no_rate() -> None:
    found = activity(sample(1, end=100, committed=90, size=900), sample(2, end=40, committed=10, size=300))

    assert [each.records_per_s for each in (*found.topics, *found.groups)] == [0, 0, 0]
    assert found.brokers[0].written_bytes_per_s == 0


def test_a_small_screen_shows_the_first_rows_of_each_table_and_counts_the_others() -> None:
    groups = {f"group-{n:03}": GroupSample(state="empty", committed={("orders", 0): 0}) for n in range(100)}
    small = sample(2, end=10, committed=0)
    shown = activity(small, Sample(**{name: getattr(small, name) for name in Sample.__slots__} | {"groups": groups}))

    text = screen(shown, title="cluster", lines=24, width=80)
    assert len(text.split("\n")) <= 24
    assert "group-000" in text
    assert "and 9" in text.split("\n")[-1]
    assert all(len(line) <= 80 for line in text.split("\n"))


def test_what_could_not_be_asked_stands_above() -> None:
    late = sample(2, end=10, committed=0, not_seen=["broker 2 does not answer"])

    assert "could not look: broker 2 does not answer" in screen(activity(late, late), title="cluster")
