"""What goes into and out of topics is counted by topic, in a bounded number."""

import gc

from ottla_broker.topic_totals import OTHER_TOPICS
from ottla_broker.topic_traffic import TopicTraffic, TrafficByTopic


def produced(traffic: TrafficByTopic) -> dict[str, int]:
    return {topic: counts.produced_bytes for topic, counts in traffic.counts()}


def count(counts: TopicTraffic, size_bytes: int) -> TopicTraffic:
    counts.produced_bytes += size_bytes
    return counts


def test_partitions_of_a_topic_share_its_counts() -> None:
    traffic = TrafficByTopic()
    held = [count(traffic.of("flights"), 5), count(traffic.of("flights"), 7), count(traffic.of("planes"), 1)]
    assert held[0] is held[1]
    assert produced(traffic) == {"flights": 12, "planes": 1}


def test_counts_do_not_fall_while_a_partition_is_left_and_go_with_the_last() -> None:
    traffic = TrafficByTopic()
    first, second = count(traffic.of("flights"), 5), count(traffic.of("flights"), 7)
    del first
    gc.collect()
    assert produced(traffic) == {"flights": 12}
    del second
    gc.collect()
    assert produced(traffic) == {}


def test_topics_beyond_the_bound_share_one_count() -> None:
    traffic = TrafficByTopic(topics_max=2)
    held = [count(traffic.of(f"t{number}"), 1) for number in range(5)]
    assert produced(traffic) == {"t0": 1, "t1": 1, OTHER_TOPICS: 3}
    assert len(held) == 5
