"""What group coordinators show."""

from typing import Final

from ottla_core.observe.catalogue.broker_requests import API, ERROR
from ottla_core.observe.catalogue.definition import Label, MetricDefinition, MetricFamily, ProcessRole

_coordinator = MetricFamily(ProcessRole.GROUP_COORDINATOR)

SHARD_STATUS = Label("status", "status of a shard", "a few, fixed by the program")
PROTOCOL = Label("protocol", "classic or consumer", "two")
GROUP = Label(
    "group", "id of a group", "groups with offsets; series beyond the limit, of the least lag, are left out"
)
TOPIC = Label("topic", "name of a topic", "topics of which the group has committed offsets")
GROUP_STATE = Label("state", "state of a group, as Kafka spells it", "Kafka's states of groups")
TRANSACTION_STATE = Label(
    "state", "state of a transactional id, as Kafka spells it", "Kafka's states of transactions"
)
ENDING = Label("result", "commit; or abort, fenced or timeout, by whose word it was aborted", "four")

COORDINATOR: Final[tuple[MetricDefinition, ...]] = (
    _coordinator.gauge("ottla_coordinator_shards", "Shards owned, that is, partitions of __consumer_offsets.",
                       SHARD_STATUS),
    _coordinator.gauge("ottla_coordinator_transaction_shards",
                       "Shards owned that are partitions of __transaction_state.", SHARD_STATUS),
    _coordinator.gauge("ottla_coordinator_groups", "Groups.", PROTOCOL, GROUP_STATE),
    _coordinator.gauge("ottla_coordinator_members", "Members of all groups."),
    _coordinator.gauge("ottla_coordinator_offsets", "Committed offsets."),
    _coordinator.gauge("ottla_coordinator_brokers", "Brokers with a stream to this group coordinator."),
    _coordinator.gauge("ottla_coordinator_group_lag_records",
                       "Records of a topic that a group has not committed yet, as looked at every five seconds.",
                       GROUP, TOPIC),
    _coordinator.gauge("ottla_coordinator_group_lag_seconds",
                       "For how long the first record that a group has not committed has been there, in the "
                       "partition of a topic where this is longest; at least so long where it was there before the "
                       "coordinator began to look.",
                       GROUP, TOPIC),
    _coordinator.gauge("ottla_coordinator_lag_offsets_left_out",
                       "Committed offsets of which the lag is not known because there are more than 200000."),
    _coordinator.gauge("ottla_coordinator_transactional_ids", "Transactional ids that are known.", TRANSACTION_STATE),
    _coordinator.counter("ottla_coordinator_transactions_ended_total",
                         "Transactions of which the end was decided and stored.", ENDING),
    _coordinator.gauge("ottla_coordinator_transactions_ending",
                       "Transactions of which the end is decided, and markers are missing in partitions."),
    _coordinator.counter("ottla_coordinator_markers_written_total",
                         "Markers of transactions that were written, one for each partition."),
    _coordinator.counter("ottla_coordinator_markers_repeated_total",
                         "Markers that were not written, or not told to be, and sent again."),
    _coordinator.counter("ottla_coordinator_markers_dropped_total",
                         "Markers for partitions that have been deleted."),
    _coordinator.counter("ottla_coordinator_requests_total", "Requests received.", API),
    _coordinator.counter("ottla_coordinator_request_errors_total",
                         "Errors that members were told, one for each group, topic or partition that was refused.",
                         API, ERROR),
    _coordinator.counter("ottla_coordinator_requests_refused_total",
                         "Requests refused because their shard was not there to serve them.", ERROR),
    _coordinator.counter("ottla_coordinator_rebalances_total",
                         "Rebalances: complete ones of classic groups, begun ones of consumer groups.", PROTOCOL),
    _coordinator.counter("ottla_coordinator_rebalance_time_seconds_total",
                         "Time that rebalances of classic groups took until the assignment was stored."),
    _coordinator.counter("ottla_coordinator_appends_total", "Rounds of turns that were stored."),
    _coordinator.counter("ottla_coordinator_append_batches_total", "Record batches that were stored."),
    _coordinator.counter("ottla_coordinator_append_size_bytes_total", "Bytes of records that were stored."),
    _coordinator.counter("ottla_coordinator_append_time_seconds_total",
                         "Time spent waiting for rounds to be stored."),
    _coordinator.counter("ottla_coordinator_append_timeouts_total", "Rounds that were not stored in time."),
    _coordinator.counter("ottla_coordinator_loads_total", "Shards loaded."),
    _coordinator.counter("ottla_coordinator_load_time_seconds_total", "Time spent loading shards."),
    _coordinator.counter("ottla_coordinator_loaded_records_total", "Records replayed."),
    _coordinator.counter("ottla_coordinator_unreadable_records_total", "Damaged records passed over."),
    _coordinator.counter("ottla_coordinator_failures_total", "Shards loaded again because of a failure."),
)  # fmt: skip
