"""What a controller shows of itself and, by its view of the cluster's state, of the cluster."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ottla_controller.config import ControllerConfig
from ottla_controller.election_counts import ElectionCounts
from ottla_controller.leadership_loop import LeadershipLoop
from ottla_controller.partition_change import TopicRules
from ottla_controller.reassignment import is_being_reassigned
from ottla_controller.topic_rules import rules_of_topics
from ottla_core.cluster.etcd.times import show_etcd
from ottla_core.cluster.state.model import NO_COORDINATOR, NO_LEADER, ClusterState, PartitionState
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.observe.catalogue.definition import ProcessRole
from ottla_core.observe.metrics import Metrics, counted
from ottla_core.observe.publishing import publish_metrics
from ottla_core.observe.traces import show_traces
from ottla_core.rpc.refusals import show_rpc_security

if TYPE_CHECKING:
    from ottla_core.observe.tracing import Tracing


def serve_metrics(
    config: ControllerConfig, feed: ClusterStateFeed, leadership: LeadershipLoop, tracing: "Tracing | None"
) -> ExitStack:
    """Begin to show the metrics; closing what is returned ends it.

    Raises:
        MetricsError: the endpoint's port is in use.
    """
    metrics = Metrics(ProcessRole.CONTROLLER, str(config.node_id))
    metrics.show_value("ottla_controller_leads", lambda: float(leadership.active is not None))
    show_etcd(metrics)
    show_rpc_security(metrics)
    show_traces(metrics, tracing)
    _show_members(metrics, feed)
    _show_partitions(metrics, feed)
    counts = ElectionCounts()
    feed.subscribe(counts.state_changed)
    metrics.show("ottla_controller_elections_total", counted("kind", counts.elections))
    defaults = TopicRules(
        min_insync_replicas=config.min_insync_replicas, allows_unclean=config.unclean_leader_election_enable
    )
    metrics.show_value(
        "ottla_controller_under_min_isr_partitions", lambda: under_min_isr_partitions(feed.state, defaults)
    )
    return publish_metrics(metrics, config)


def _show_members(metrics: Metrics, feed: ClusterStateFeed) -> None:
    metrics.show_value("ottla_controller_brokers", lambda: len(feed.state.brokers))
    metrics.show_value("ottla_controller_group_coordinators", lambda: len(feed.state.coordinators))
    metrics.show_value("ottla_controller_shards_without_coordinator", lambda: _shards_without_coordinator(feed.state))


def _shards_without_coordinator(state: ClusterState) -> int:
    return sum(shard.coordinator == NO_COORDINATOR for shard in state.shards.values())


def under_min_isr_partitions(state: ClusterState, defaults: TopicRules) -> int:
    """Return how many partitions of the cluster take no records from producers that ask for all in-sync replicas."""
    rules_of = rules_of_topics(state.broker_configs.get(None, {}), defaults)
    return sum(
        len(partition.isr) < rules_of(topic).min_insync_replicas
        for topic in state.topics.values()
        for partition in topic.partitions
    )


def _show_partitions(metrics: Metrics, feed: ClusterStateFeed) -> None:
    def show(name: str, is_counted: Callable[[PartitionState], bool]) -> None:
        metrics.show_value(
            name,
            lambda: sum(
                is_counted(partition) for topic in feed.state.topics.values() for partition in topic.partitions
            ),
        )

    metrics.show_value("ottla_controller_topics", lambda: len(feed.state.topics))
    show("ottla_controller_offline_partitions", lambda partition: partition.leader == NO_LEADER)
    show(
        "ottla_controller_under_replicated_partitions",
        lambda partition: len(partition.isr) < len(partition.replicas),
    )
    show("ottla_controller_preferred_replica_imbalance", lambda partition: partition.leader != partition.replicas[0])
    show("ottla_controller_reassigning_partitions", is_being_reassigned)
