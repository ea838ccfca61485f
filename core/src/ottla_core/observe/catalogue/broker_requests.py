"""What brokers show of their clients, of requests, and of requests about groups."""

from typing import Final

from ottla_core.observe.catalogue.definition import Label, MetricDefinition, MetricFamily, ProcessRole

_broker = MetricFamily(ProcessRole.BROKER)

API = Label("api", "name of the API, as Kafka spells it", "the APIs that brokers serve, about fifty")

REQUESTS: Final[tuple[MetricDefinition, ...]] = (
    _broker.counter("ottla_broker_requests_total", "Requests received.", API),
    _broker.counter("ottla_broker_connections_accepted_total", "Client connections accepted."),
    _broker.gauge("ottla_broker_connections", "Client connections that are open."),
    _broker.gauge("ottla_broker_fetch_sessions", "Fetch sessions that are kept."),
    _broker.gauge("ottla_broker_fetch_session_partitions", "Partitions in all fetch sessions."),
    _broker.counter("ottla_broker_fetch_session_evictions_total", "Fetch sessions that had to make way for others."),
)

GROUP_RELAY: Final[tuple[MetricDefinition, ...]] = (
    _broker.gauge("ottla_broker_group_streams", "Open streams to group coordinators."),
    _broker.counter(
        "ottla_broker_group_requests_relayed_total", "Requests about groups passed on to group coordinators."
    ),
    _broker.gauge(
        "ottla_broker_group_requests_waiting", "Requests about groups that group coordinators have not answered yet."
    ),
    _broker.counter("ottla_broker_shard_appends_total", "Batches appended for group coordinators."),
    _broker.counter("ottla_broker_shard_reads_total", "Reads answered for group coordinators."),
)
