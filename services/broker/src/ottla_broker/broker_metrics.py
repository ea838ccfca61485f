"""What a broker shows of itself at its Prometheus endpoint."""

from ottla_broker.broker import Broker
from ottla_broker.dispatch import Dispatcher
from ottla_broker.fetch_sessions import FetchSessionCache
from ottla_broker.groups.relay import GroupRelay
from ottla_broker.links.link_metrics import show_links
from ottla_broker.listener import Listener
from ottla_broker.log.cleaner import LogCleaner
from ottla_core.observe.metrics import NO_ATTRIBUTES, MetricsServer
from ottla_core.wire.messages import api_name


def serve_metrics(broker: Broker, listener: Listener, dispatcher: Dispatcher) -> MetricsServer:
    """Open the endpoint.

    Raises:
        MetricsError: its port is in use.
    """
    config, partitions = broker.config, broker.partitions
    assert config.metrics_listener is not None
    metrics = MetricsServer("ottla-broker", str(config.node_id), config.metrics_listener)
    show_links(metrics, broker.links, broker.link_keepers)
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
    _add_replication_metrics(metrics, broker)
    _add_compaction_metrics(metrics, broker.store.cleaner)
    _add_fetch_session_metrics(metrics, broker.fetch_sessions)
    _add_group_metrics(metrics, broker.groups)
    return metrics


def _add_replication_metrics(metrics: MetricsServer, broker: Broker) -> None:
    partitions, updates, fetchers = broker.partitions, broker.isr_updates, broker.fetchers
    metrics.gauge(
        "ottla_broker_under_replicated_partitions",
        "Partitions led here of which not every replica is in sync.",
        "1",
        lambda: [
            (sum(each.leads and len(each.state.isr) < len(each.state.replicas) for each in partitions), NO_ATTRIBUTES)
        ],
    )
    metrics.gauge(
        "ottla_broker_under_min_isr_partitions",
        "Partitions led here with fewer replicas in sync than min.insync.replicas asks for.",
        "1",
        lambda: [
            (
                sum(each.leads and len(each.state.isr) < each.min_in_sync_replicas for each in partitions),
                NO_ATTRIBUTES,
            )
        ],
    )
    metrics.gauge(
        "ottla_broker_lacking_logs",
        "Logs of which the disk has lost committed records, until they are copied again.",
        "1",
        lambda: [(sum(each.lacks_records for each in partitions), NO_ATTRIBUTES)],
    )
    metrics.gauge(
        "ottla_broker_longest_log_searches",
        "Partitions to be led here, once it is known that no other replica has a longer log.",
        "1",
        lambda: [(sum(each.search is not None for each in partitions), NO_ATTRIBUTES)],
    )
    metrics.gauge(
        "ottla_broker_failed_logs",
        "Replicas here that take no more records until the broker is restarted, because an fsync has failed.",
        "1",
        lambda: [(sum(each.has_failed_log for each in partitions), NO_ATTRIBUTES)],
    )
    metrics.counter(
        "ottla_broker_storage_errors",
        "What the disk refused of logs, a full one for example, by log directory and what was tried.",
        "1",
        lambda: [
            (count, {"directory": str(directory), "action": action})
            for directory, action, count in broker.store.storage_problems.counts()
        ],
    )
    metrics.counter(
        "ottla_broker_isr_changes",
        "Changes of in-sync sets that leaders here asked for, by what became of them.",
        "1",
        lambda: [
            (updates.shrink_count, {"change": "shrink"}),
            (updates.expand_count, {"change": "expand"}),
            (updates.failed_count, {"change": "failed"}),
        ],
    )
    metrics.gauge(
        "ottla_broker_replica_fetchers",
        "Connections over which this broker fetches from leaders.",
        "1",
        lambda: [(fetchers.count, NO_ATTRIBUTES)],
    )
    metrics.counter(
        "ottla_broker_replicated_size",
        "Bytes of records fetched from leaders.",
        "By",
        lambda: [(fetchers.fetched_bytes, NO_ATTRIBUTES)],
    )


def _add_compaction_metrics(metrics: MetricsServer, cleaner: LogCleaner) -> None:
    metrics.counter(
        "ottla_broker_compaction_rounds",
        "Finished rounds of compaction.",
        "1",
        lambda: [(cleaner.rounds, NO_ATTRIBUTES)],
    )
    metrics.counter(
        "ottla_broker_compaction_size",
        "Bytes of segments that compaction has replaced, and of those it has put in their place.",
        "By",
        lambda: [(cleaner.read_bytes, {"direction": "read"}), (cleaner.written_bytes, {"direction": "written"})],
    )
    metrics.gauge(
        "ottla_broker_compaction_dirty_ratio_max",
        "Share of the dirtiest compacted log that waits to be compacted, as last looked at.",
        "1",
        lambda: [(cleaner.dirty_ratio_max, NO_ATTRIBUTES)],
    )
    metrics.gauge(
        "ottla_broker_uncleanable_logs",
        "Logs that cannot be compacted and are set aside.",
        "1",
        lambda: [(cleaner.uncleanable_count, NO_ATTRIBUTES)],
    )


def _add_fetch_session_metrics(metrics: MetricsServer, sessions: FetchSessionCache) -> None:
    metrics.gauge(
        "ottla_broker_fetch_sessions",
        "Fetch sessions that are kept.",
        "1",
        lambda: [(len(sessions), NO_ATTRIBUTES)],
    )
    metrics.gauge(
        "ottla_broker_fetch_session_partitions",
        "Partitions in all fetch sessions.",
        "1",
        lambda: [(sessions.partition_count, NO_ATTRIBUTES)],
    )
    metrics.counter(
        "ottla_broker_fetch_session_evictions",
        "Fetch sessions that had to make way for others.",
        "1",
        lambda: [(sessions.eviction_count, NO_ATTRIBUTES)],
    )


def _add_group_metrics(metrics: MetricsServer, groups: GroupRelay) -> None:
    metrics.gauge(
        "ottla_broker_group_streams",
        "Open streams to group coordinators.",
        "1",
        lambda: [(groups.open_count, NO_ATTRIBUTES)],
    )
    metrics.counter(
        "ottla_broker_group_requests_relayed",
        "Requests about groups passed on to coordinators.",
        "1",
        lambda: [(groups.relayed_count, NO_ATTRIBUTES)],
    )
    metrics.gauge(
        "ottla_broker_group_requests_waiting",
        "Requests about groups that coordinators have not answered yet.",
        "1",
        lambda: [(groups.waiting_count, NO_ATTRIBUTES)],
    )
    metrics.counter(
        "ottla_broker_shard_appends",
        "Batches appended for group coordinators.",
        "1",
        lambda: [(groups.shard_log.append_count, NO_ATTRIBUTES)],
    )
    metrics.counter(
        "ottla_broker_shard_reads",
        "Reads answered for group coordinators.",
        "1",
        lambda: [(groups.shard_log.read_count, NO_ATTRIBUTES)],
    )
