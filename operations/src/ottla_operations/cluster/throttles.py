"""The settings that hold back the copying of some replicas, as kafka-reassign-partitions sets them. Pure.

Topics name the replicas, once as those that are read from and once as those that are written; brokers have the rates.
Rates without replicas, and replicas without rates, mean nothing, so either order of setting them does.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import BROKER_RESOURCE, TOPIC_RESOURCE, ConfigChange, Replicas

LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
TOPIC_SETTINGS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
BROKER_SETTINGS = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


def throttle_settings(
    before: Mapping[TopicPartition, Replicas], targets: Mapping[TopicPartition, Replicas], bytes_per_second: int
) -> list[ConfigChange]:
    """Return the settings that hold all copying for a plan to a rate per broker.

    Args:
        before: the replicas that partitions have.
        targets: the replicas that they are to get.
        bytes_per_second: for each broker, both ways.
    """
    leaders: defaultdict[str, list[str]] = defaultdict(list)
    followers: defaultdict[str, list[str]] = defaultdict(list)
    for name, target in sorted(targets.items()):
        added = [broker for broker in target if broker not in before[name]]
        if added:
            leaders[name.topic] += [f"{name.partition}:{broker}" for broker in before[name]]
            followers[name.topic] += [f"{name.partition}:{broker}" for broker in added]
    changes = [
        ConfigChange(TOPIC_RESOURCE, topic, setting, ",".join(replicas))
        for setting, by_topic in ((LEADER_REPLICAS, leaders), (FOLLOWER_REPLICAS, followers))
        for topic, replicas in by_topic.items()
    ]
    rate = str(bytes_per_second)
    brokers = involved_brokers(before, targets) if changes else ()
    return changes + [
        ConfigChange(BROKER_RESOURCE, str(broker), setting, rate) for broker in brokers for setting in BROKER_SETTINGS
    ]


def throttle_removal(topics: Iterable[str], brokers: Iterable[int]) -> list[ConfigChange]:
    """Return the changes that take all throttles of these topics and brokers away."""
    return [
        *(ConfigChange(BROKER_RESOURCE, str(broker), name, None) for broker in brokers for name in BROKER_SETTINGS),
        *(ConfigChange(TOPIC_RESOURCE, topic, name, None) for topic in topics for name in TOPIC_SETTINGS),
    ]


def involved_brokers(
    before: Mapping[TopicPartition, Replicas], targets: Mapping[TopicPartition, Replicas]
) -> Collection[int]:
    """Return the brokers that a plan copies from or to."""
    return sorted(
        {
            broker
            for name, target in targets.items()
            if set(target) - set(before[name])
            for broker in (*before[name], *target)
        }
    )
