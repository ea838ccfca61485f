"""What a controller shows of itself at its Prometheus endpoint."""

from collections.abc import Callable

from ottla_controller.config import ControllerConfig
from ottla_controller.leadership_loop import LeadershipLoop
from ottla_controller.reassignment import is_being_reassigned
from ottla_core.cluster.feed import ClusterStateFeed
from ottla_core.cluster.model import NO_COORDINATOR, NO_LEADER, PartitionState
from ottla_core.observe.metrics import NO_ATTRIBUTES, MetricsServer, Reader


def serve_metrics(config: ControllerConfig, feed: ClusterStateFeed, leadership: LeadershipLoop) -> MetricsServer:
    """Open the endpoint.

    Raises:
        MetricsError: its port is in use.
    """
    assert config.metrics_listener is not None
    metrics = MetricsServer("ottla-controller", str(config.node_id), config.metrics_listener)
    metrics.gauge(
        "ottla_controller_leads",
        "Whether this controller leads: 1 or 0.",
        "1",
        lambda: [(float(leadership.active is not None), NO_ATTRIBUTES)],
    )
    metrics.gauge(
        "ottla_controller_brokers",
        "Brokers that are registered.",
        "1",
        lambda: [(len(feed.state.brokers), NO_ATTRIBUTES)],
    )
    metrics.gauge(
        "ottla_controller_group_coordinators",
        "Group coordinators that are registered.",
        "1",
        lambda: [(len(feed.state.coordinators), NO_ATTRIBUTES)],
    )
    metrics.gauge(
        "ottla_controller_topics",
        "Topics of the cluster.",
        "1",
        lambda: [(len(feed.state.topics), NO_ATTRIBUTES)],
    )
    _serve_partition_metrics(metrics, feed)
    metrics.gauge(
        "ottla_controller_shards_without_coordinator",
        "Partitions of __consumer_offsets that no group coordinator owns.",
        "1",
        lambda: [(sum(shard.coordinator == NO_COORDINATOR for shard in feed.state.shards.values()), NO_ATTRIBUTES)],
    )
    return metrics


def _serve_partition_metrics(metrics: MetricsServer, feed: ClusterStateFeed) -> None:
    def counting(is_counted: Callable[[PartitionState], bool]) -> Reader:
        return lambda: [
            (
                sum(is_counted(partition) for topic in feed.state.topics.values() for partition in topic.partitions),
                NO_ATTRIBUTES,
            )
        ]

    metrics.gauge(
        "ottla_controller_offline_partitions",
        "Partitions without a leader.",
        "1",
        counting(lambda partition: partition.leader == NO_LEADER),
    )
    metrics.gauge(
        "ottla_controller_preferred_replica_imbalance",
        "Partitions that another replica leads than the preferred one.",
        "1",
        counting(lambda partition: partition.leader != partition.replicas[0]),
    )
    metrics.gauge(
        "ottla_controller_reassigning_partitions",
        "Partitions that are being moved to other brokers.",
        "1",
        counting(is_being_reassigned),
    )
