"""What topics' settings say about their replicas, and what a change of these settings does to eligible leaders. Pure.

The controller has to know a topic's `min.insync.replicas` as its leaders do: the topic's own, else the cluster-wide
dynamic one, else the one of the processes' own files, which hence must be the same everywhere. (A dynamic one for a
single broker is refused.)

An eligible leader has everything because the high watermark stood still while the in-sync set was too small. With
another minimum it might have moved. So the eligible leaders of partitions that are led are forgotten before another
minimum holds (KIP-966). A partition without a leader keeps them: its high watermark cannot move.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ottla_controller.configs import BrokerTarget, ConfigPlan, TopicTarget
from ottla_controller.partition_change import RulesOf, TopicRules
from ottla_core.cluster.state.model import NO_LEADER, ClusterState, PartitionState, Topic

MIN_INSYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"

Configs = Mapping[str, str]


def rules_of_topics(cluster_wide: Configs, defaults: TopicRules) -> RulesOf:
    """Return what tells a topic's rules.

    Args:
        cluster_wide: the dynamic settings of all brokers.
        defaults: what holds for topics where neither they nor these settings say anything.
    """
    min_insync = cluster_wide.get(MIN_INSYNC_REPLICAS)
    if min_insync is not None:
        defaults = replace(defaults, min_insync_replicas=int(min_insync))
    unclean = cluster_wide.get(UNCLEAN_LEADER_ELECTION)
    if unclean is not None:
        defaults = replace(defaults, allows_unclean=_is_true(unclean))

    def rules_of(topic: Topic) -> TopicRules:
        own_min_insync = topic.configs.get(MIN_INSYNC_REPLICAS)
        own_unclean = topic.configs.get(UNCLEAN_LEADER_ELECTION)
        if own_min_insync is None and own_unclean is None:
            return defaults
        return TopicRules(
            min_insync_replicas=defaults.min_insync_replicas if own_min_insync is None else int(own_min_insync),
            allows_unclean=defaults.allows_unclean if own_unclean is None else _is_true(own_unclean),
        )

    return rules_of


def _is_true(value: str) -> bool:
    return value.strip().lower() == "true"


def partitions_to_clear(plan: ConfigPlan, state: ClusterState) -> Iterator[PartitionState]:
    """Yield the new states of partitions whose eligible leaders must be forgotten before a plan's settings hold."""
    for topic in _topics_with_another_minimum(plan, state):
        for partition in topic.partitions:
            if partition.eligible_leaders and partition.leader != NO_LEADER:
                yield replace(partition, eligible_leaders=())


def _topics_with_another_minimum(plan: ConfigPlan, state: ClusterState) -> Iterator[Topic]:
    if plan.configs is None:
        return
    minimum = plan.configs.get(MIN_INSYNC_REPLICAS)
    match plan.target:
        case TopicTarget(name):
            if state.topics[name].configs.get(MIN_INSYNC_REPLICAS) != minimum:
                yield state.topics[name]
        case BrokerTarget(None):
            if state.broker_configs.get(None, {}).get(MIN_INSYNC_REPLICAS) != minimum:
                yield from (topic for topic in state.topics.values() if MIN_INSYNC_REPLICAS not in topic.configs)
        case BrokerTarget() | None:
            pass
