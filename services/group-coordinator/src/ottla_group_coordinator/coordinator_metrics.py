"""What a coordinator shows of itself at its Prometheus endpoint."""

from collections import Counter
from collections.abc import Iterable

from ottla_core.observe.metrics import NO_ATTRIBUTES, Attributes, MetricsServer
from ottla_core.wire.messages import api_name
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_group_coordinator.coordinator_counts import CoordinatorCounts
from ottla_group_coordinator.service import GroupRelayService
from ottla_group_coordinator.shard_runtime import ShardStatus
from ottla_group_coordinator.shard_table import ShardTable

Observations = Iterable[tuple[float, Attributes]]


def serve_metrics(
    config: GroupCoordinatorConfig, shards: ShardTable, service: GroupRelayService, counts: CoordinatorCounts
) -> MetricsServer:
    """Open the endpoint.

    Raises:
        MetricsError: its port is in use.
    """
    assert config.metrics_listener is not None
    metrics = MetricsServer("ottla-group-coordinator", str(config.node_id), config.metrics_listener)
    _add_state(metrics, shards, service)
    _add_requests(metrics, counts)
    _add_log(metrics, counts)
    return metrics


def _add_state(metrics: MetricsServer, shards: ShardTable, service: GroupRelayService) -> None:
    metrics.gauge("ottla_coordinator_shards", "Shards owned, by status.", "1", lambda: shards_by_status(shards))
    metrics.gauge("ottla_coordinator_groups", "Groups, by protocol and state.", "1", lambda: groups_by_state(shards))
    metrics.gauge("ottla_coordinator_members", "Members of all groups.", "1", lambda: members(shards))
    metrics.gauge("ottla_coordinator_offsets", "Committed offsets.", "1", lambda: offsets(shards))
    metrics.gauge("ottla_coordinator_brokers", "Brokers with a stream.", "1", lambda: [(len(service), NO_ATTRIBUTES)])


def _add_requests(metrics: MetricsServer, counts: CoordinatorCounts) -> None:
    metrics.counter(
        "ottla_coordinator_requests",
        "Requests received, by API.",
        "1",
        lambda: [(count, {"api": api_name(key)}) for key, count in tuple(counts.requests.items())],
    )
    metrics.counter(
        "ottla_coordinator_requests_refused",
        "Requests refused because their shard was not there to serve them, by error.",
        "1",
        lambda: [(count, {"error": name}) for name, count in tuple(counts.refused.items())],
    )


def _add_log(metrics: MetricsServer, counts: CoordinatorCounts) -> None:
    def counter(name: str, description: str, unit: str, attribute: str) -> None:
        metrics.counter(name, description, unit, lambda: [(getattr(counts, attribute), NO_ATTRIBUTES)])

    counter("ottla_coordinator_appends", "Rounds of turns that were stored.", "1", "appends")
    counter("ottla_coordinator_append_batches", "Record batches that were stored.", "1", "append_batches")
    counter("ottla_coordinator_append_size", "Bytes of records that were stored.", "By", "append_bytes")
    counter("ottla_coordinator_append_time", "Time spent waiting for rounds to be stored.", "s", "append_s")
    counter("ottla_coordinator_append_timeouts", "Rounds that were not stored in time.", "1", "append_timeouts")
    counter("ottla_coordinator_loads", "Shards loaded.", "1", "loads")
    counter("ottla_coordinator_load_time", "Time spent loading shards.", "s", "load_s")
    counter("ottla_coordinator_loaded_records", "Records replayed.", "1", "loaded_records")
    counter("ottla_coordinator_unreadable_records", "Damaged records passed over.", "1", "unreadable_records")
    counter("ottla_coordinator_failures", "Shards loaded again because of a failure.", "1", "failures")


def shards_by_status(shards: ShardTable) -> Observations:
    """Return how many shards there are in each status."""
    counted = Counter(runtime.status for runtime in tuple(shards.owned))
    return [(counted[status], {"status": status.value}) for status in ShardStatus]


def groups_by_state(shards: ShardTable) -> Observations:
    """Return how many groups there are, by protocol and state."""
    counted = Counter(
        (group.type.value, group.state_name)
        for runtime in tuple(shards.owned)
        if runtime.shard is not None
        for group in tuple(runtime.shard.groups.values())
    )
    return [(count, {"protocol": protocol, "state": state}) for (protocol, state), count in counted.items()]


def members(shards: ShardTable) -> Observations:
    """Return how many members all groups have."""
    return [
        (
            sum(
                len(group.members)
                for runtime in tuple(shards.owned)
                if runtime.shard is not None
                for group in tuple(runtime.shard.groups.values())
            ),
            NO_ATTRIBUTES,
        )
    ]


def offsets(shards: ShardTable) -> Observations:
    """Return how many offsets are committed."""
    return [
        (
            sum(len(runtime.shard.offsets) for runtime in tuple(shards.owned) if runtime.shard is not None),
            NO_ATTRIBUTES,
        )
    ]
