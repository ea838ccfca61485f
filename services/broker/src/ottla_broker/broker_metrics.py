"""What a broker shows of itself at its Prometheus endpoint."""

from ottla_broker.config import BrokerConfig
from ottla_broker.dispatch import Dispatcher
from ottla_broker.listener import Listener
from ottla_broker.partitions import PartitionTable
from ottla_core.observe.metrics import NO_ATTRIBUTES, MetricsServer
from ottla_core.wire.messages import api_name


def serve_metrics(
    config: BrokerConfig, listener: Listener, dispatcher: Dispatcher, partitions: PartitionTable
) -> MetricsServer:
    """Open the endpoint.

    Raises:
        MetricsError: its port is in use.
    """
    assert config.metrics_listener is not None
    metrics = MetricsServer("ottla-broker", str(config.node_id), config.metrics_listener)
    metrics.counter(
        "ottla_broker_requests",
        "Requests received, by API.",
        "1",
        lambda: [(count, {"api": api_name(key)}) for key, count in dispatcher.request_counts.items()],
    )
    metrics.counter(
        "ottla_broker_connections_accepted",
        "Client connections accepted since the start.",
        "1",
        lambda: [(listener.accepted, NO_ATTRIBUTES)],
    )
    metrics.gauge(
        "ottla_broker_connections",
        "Client connections that are open.",
        "1",
        lambda: [(len(listener.connections), NO_ATTRIBUTES)],
    )
    metrics.gauge(
        "ottla_broker_partitions",
        "Partitions held, by whether this broker leads them.",
        "1",
        lambda: [
            (sum(partition.leads for partition in partitions), {"role": "leader"}),
            (sum(not partition.leads for partition in partitions), {"role": "follower"}),
        ],
    )
    metrics.gauge(
        "ottla_broker_log_size",
        "Bytes of all logs.",
        "By",
        lambda: [(sum(partition.log.size_bytes for partition in partitions), NO_ATTRIBUTES)],
    )
    metrics.counter(
        "ottla_broker_log_end_offset",
        "Log end offset of each partition.",
        "1",
        lambda: [
            (
                partition.log.log_end_offset,
                {"topic": partition.topic_partition.topic, "partition": str(partition.topic_partition.partition)},
            )
            for partition in partitions
        ],
    )
    return metrics
