"""Replicas, in-sync sets and fetchers."""

from ottla_broker.partition_table import PartitionTable
from ottla_broker.replication.fetcher_pool import FetcherPool
from ottla_broker.replication.isr_updates import IsrUpdates
from ottla_core.observe.metrics import Metrics


def show_replication(
    metrics: Metrics, partitions: PartitionTable, updates: IsrUpdates, fetchers: FetcherPool
) -> None:
    """Show how the partitions that this broker holds are replicated."""
    metrics.show(
        "ottla_broker_partitions",
        lambda: [
            (sum(each.leads for each in partitions), {"role": "leader"}),
            (sum(not each.leads for each in partitions), {"role": "follower"}),
        ],
    )
    metrics.show_value(
        "ottla_broker_under_replicated_partitions",
        lambda: sum(each.leads and len(each.state.isr) < len(each.state.replicas) for each in partitions),
    )
    metrics.show_value(
        "ottla_broker_under_min_isr_partitions",
        lambda: sum(each.leads and len(each.state.isr) < each.min_in_sync_replicas for each in partitions),
    )
    metrics.show_value(
        "ottla_broker_longest_log_searches", lambda: sum(each.search is not None for each in partitions)
    )
    metrics.show(
        "ottla_broker_isr_changes_total",
        lambda: [
            (updates.shrink_count, {"change": "shrink"}),
            (updates.expand_count, {"change": "expand"}),
            (updates.failed_count, {"change": "failed"}),
        ],
    )
    metrics.show_value("ottla_broker_replica_fetchers", lambda: fetchers.count)
    metrics.show_value("ottla_broker_replicated_size_bytes_total", lambda: fetchers.fetched_bytes)
