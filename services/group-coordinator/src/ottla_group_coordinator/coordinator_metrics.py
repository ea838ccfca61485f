"""What a group coordinator shows of itself."""

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

from ottla_core.cluster.etcd.times import show_etcd
from ottla_core.observe.catalogue.definition import ProcessRole
from ottla_core.observe.metrics import Labels, Metrics, counted
from ottla_core.observe.publishing import publish_metrics
from ottla_core.observe.request_errors import errors_by_api
from ottla_core.rpc.refusals import show_rpc_security
from ottla_core.wire.messages import api_name
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_group_coordinator.lag.lag_watch import LagWatch
from ottla_group_coordinator.markers.marker_sender import MarkerSender
from ottla_group_coordinator.rebalance_counts import RebalanceCounts
from ottla_group_coordinator.runtime.coordinator_counts import CoordinatorCounts
from ottla_group_coordinator.runtime.relay_service import GroupRelayService
from ottla_group_coordinator.runtime.shard_runtime import ShardStatus
from ottla_group_coordinator.runtime.shard_table import ShardTable
from ottla_group_coordinator.shard import GroupShard
from ottla_group_coordinator.transactions.counts import Ending, TransactionCounts
from ottla_group_coordinator.transactions.shard import TransactionShard
from ottla_group_coordinator.transactions.transaction_state import TransactionState

Observations = Iterable[tuple[float, Labels]]


def serve_metrics(
    config: GroupCoordinatorConfig,
    shards: ShardTable[GroupShard],
    service: GroupRelayService,
    counts: CoordinatorCounts,
    *,
    rebalances: RebalanceCounts,
    lag: LagWatch,
    transaction_shards: ShardTable[TransactionShard],
    transactions_ended: TransactionCounts,
    markers: MarkerSender,
) -> ExitStack:
    """Begin to show the metrics; closing what is returned ends it.

    Raises:
        MetricsError: the endpoint's port is in use.
    """
    metrics = Metrics(ProcessRole.GROUP_COORDINATOR, str(config.node_id))
    show_etcd(metrics)
    show_rpc_security(metrics)
    _show_state(metrics, shards, service)
    _show_requests(metrics, counts)
    _show_rebalances(metrics, rebalances)
    _show_log(metrics, counts)
    _show_lag(metrics, lag)
    _show_transactions(metrics, transaction_shards, transactions_ended, markers)
    return publish_metrics(metrics, config)


def _show_state(metrics: Metrics, shards: ShardTable[GroupShard], service: GroupRelayService) -> None:
    metrics.show("ottla_coordinator_shards", lambda: shards_by_status(shards))
    metrics.show("ottla_coordinator_groups", lambda: groups_by_state(shards))
    metrics.show_value("ottla_coordinator_members", lambda: members(shards))
    metrics.show_value("ottla_coordinator_offsets", lambda: offsets(shards))
    metrics.show_value("ottla_coordinator_brokers", lambda: len(service))


def _show_requests(metrics: Metrics, counts: CoordinatorCounts) -> None:
    metrics.show(
        "ottla_coordinator_requests_total",
        lambda: [(count, {"api": api_name(key)}) for key, count in tuple(counts.requests.items())],
    )
    metrics.show("ottla_coordinator_request_errors_total", errors_by_api())
    metrics.show("ottla_coordinator_requests_refused_total", counted("error", counts.refused))


def _show_rebalances(metrics: Metrics, counts: RebalanceCounts) -> None:
    metrics.show("ottla_coordinator_rebalances_total", counted("protocol", counts.rebalances))
    metrics.show_value("ottla_coordinator_rebalance_time_seconds_total", lambda: counts.rebalance_ms / 1000)


def _show_log(metrics: Metrics, counts: CoordinatorCounts) -> None:
    metrics.show_value("ottla_coordinator_appends_total", lambda: counts.appends)
    metrics.show_value("ottla_coordinator_append_batches_total", lambda: counts.append_batches)
    metrics.show_value("ottla_coordinator_append_size_bytes_total", lambda: counts.append_bytes)
    metrics.show_value("ottla_coordinator_append_time_seconds_total", lambda: counts.append_s)
    metrics.show_value("ottla_coordinator_append_timeouts_total", lambda: counts.append_timeouts)
    metrics.show_value("ottla_coordinator_loads_total", lambda: counts.loads)
    metrics.show_value("ottla_coordinator_load_time_seconds_total", lambda: counts.load_s)
    metrics.show_value("ottla_coordinator_loaded_records_total", lambda: counts.loaded_records)
    metrics.show_value("ottla_coordinator_unreadable_records_total", lambda: counts.unreadable_records)
    metrics.show_value("ottla_coordinator_failures_total", lambda: counts.failures)


def _show_lag(metrics: Metrics, lag: LagWatch) -> None:
    metrics.show("ottla_coordinator_group_lag_records", lag.records)
    metrics.show("ottla_coordinator_group_lag_seconds", lag.seconds)
    metrics.show_value("ottla_coordinator_lag_offsets_left_out", lambda: lag.left_out)


def _show_transactions(
    metrics: Metrics, shards: ShardTable[TransactionShard], ended: TransactionCounts, markers: MarkerSender
) -> None:
    metrics.show("ottla_coordinator_transaction_shards", lambda: shards_by_status(shards))
    metrics.show("ottla_coordinator_transactional_ids", lambda: transactional_ids_by_state(shards))
    metrics.show(
        "ottla_coordinator_transactions_ended_total",
        lambda: [(ended.endings[ending.value], {"result": ending.value}) for ending in Ending],
    )
    metrics.show_value("ottla_coordinator_transactions_ending", lambda: len(markers))
    metrics.show_value("ottla_coordinator_markers_written_total", lambda: markers.counts.written)
    metrics.show_value("ottla_coordinator_markers_repeated_total", lambda: markers.counts.repeated)
    metrics.show_value("ottla_coordinator_markers_dropped_total", lambda: markers.counts.dropped)


def transactional_ids_by_state(shards: ShardTable[TransactionShard]) -> Observations:
    """Return how many transactional ids there are, by state."""
    counted = Counter(
        transaction.state
        for runtime in tuple(shards.owned)
        if runtime.shard is not None
        for transaction in tuple(runtime.shard.transactions.values())
    )
    return [(counted[state], {"state": state.value}) for state in TransactionState if counted[state]]


def shards_by_status(shards: ShardTable[Any]) -> Observations:
    """Return how many shards there are in each status."""
    counted = Counter(runtime.status for runtime in tuple(shards.owned))
    return [(counted[status], {"status": status.value}) for status in ShardStatus]


def groups_by_state(shards: ShardTable[GroupShard]) -> Observations:
    """Return how many groups there are, by protocol and state."""
    counted = Counter(
        (group.type.value, group.state_name)
        for runtime in tuple(shards.owned)
        if runtime.shard is not None
        for group in tuple(runtime.shard.groups.values())
    )
    return [(count, {"protocol": protocol, "state": state}) for (protocol, state), count in counted.items()]


def members(shards: ShardTable[GroupShard]) -> int:
    """Return how many members all groups have."""
    return sum(
        len(group.members)
        for runtime in tuple(shards.owned)
        if runtime.shard is not None
        for group in tuple(runtime.shard.groups.values())
    )


def offsets(shards: ShardTable[GroupShard]) -> int:
    """Return how many offsets are committed."""
    return sum(len(runtime.shard.offsets) for runtime in tuple(shards.owned) if runtime.shard is not None)
