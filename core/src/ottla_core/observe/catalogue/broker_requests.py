"""What brokers show of their clients, of requests, and of requests about groups."""

from typing import Final

from ottla_core.observe.catalogue.definition import Label, MetricDefinition, MetricFamily, ProcessRole
from ottla_core.observe.histogram import COARSE_TIME_BUCKETS

_broker = MetricFamily(ProcessRole.BROKER)

API = Label("api", "name of the API, as Kafka spells it", "the APIs that brokers serve, about fifty")
API_ASKED_FOR = Label("api", "name of the API, as Kafka spells it", "the APIs that were asked for, fifty at most")
AUDIT_KIND = Label("kind", "denial, administration, or data", "three")
ERROR = Label("error", "name of an error, as Kafka spells it", "Kafka's errors; only those that occurred")
PART = Label(
    "part",
    "queue (until it is handled), local (the broker's own work), remote (waiting for replicas, an fsync, a "
    "coordinator, the controller, or records to fetch), response_queue (for the responses before it), or send",
    "five",
)

RESOURCE = Label("resource", "the kind of resource, as Kafka spells it", "six")
QUOTA = Label("quota", "what the quota limits, as Kafka spells it", "five")

REQUESTS: Final[tuple[MetricDefinition, ...]] = (
    _broker.counter("ottla_broker_requests_total", "Requests received.", API),
    _broker.counter(
        "ottla_broker_request_errors_total",
        "Errors that clients were told, one for each topic or partition that was refused; those of requests that go "
        "on to group coordinators are among ottla_coordinator_request_errors_total.",
        API,
        ERROR,
    ),
    _broker.histogram(
        "ottla_broker_request_time_seconds",
        "Time from reading a request until its response is sent. Of an API that is asked for often, one request in "
        "64 is measured, chosen by lot, and stands for those since the one before.",
        COARSE_TIME_BUCKETS,
        API_ASKED_FOR,
    ),
    _broker.histogram(
        "ottla_broker_request_part_time_seconds",
        "Time that the requests measured spent in a part of their way.",
        COARSE_TIME_BUCKETS,
        API_ASKED_FOR,
        PART,
    ),
    _broker.counter("ottla_broker_connections_accepted_total", "Client connections accepted."),
    _broker.gauge("ottla_broker_connections", "Client connections that are open."),
    _broker.counter(
        "ottla_broker_failed_handshakes_total", "Connections that came to nothing in the handshake of TLS."
    ),
    _broker.gauge(
        "ottla_broker_outdated_certificates",
        "Listeners that go on with a former certificate, as the files that replaced it cannot be used.",
    ),
    _broker.counter(
        "ottla_broker_authentications_total", "Logins of clients (SASL) that succeeded, renewed ones included."
    ),
    _broker.counter(
        "ottla_broker_failed_authentications_total", "Logins of clients (SASL) that were refused or came to nothing."
    ),
    _broker.counter(
        "ottla_broker_expired_sessions_total",
        "Connections closed as the client asked for something after its login had expired.",
    ),
    _broker.counter(
        "ottla_broker_denials_total",
        "Operations that clients asked for and may not do; lists that leave something out are none.",
        RESOURCE,
    ),
    _broker.counter(
        "ottla_broker_authorizer_failures_total",
        "Times that the authorizer raised an error or gave no answer, which counts as a refusal.",
    ),
    _broker.counter(
        "ottla_broker_authorizer_slow_answers_total", "Answers for which the authorizer took more than 100 ms."
    ),
    _broker.counter("ottla_broker_audit_records_total", "Records written to the audit log.", AUDIT_KIND),
    _broker.counter(
        "ottla_broker_audit_records_dropped_total",
        "Records that the audit log lacks, as there were too many, or it could not be written.",
        AUDIT_KIND,
    ),
    _broker.counter("ottla_broker_throttles_total", "Times that a client above a quota was throttled.", QUOTA),
    _broker.counter(
        "ottla_broker_throttled_seconds_total", "Seconds for which clients above a quota were throttled.", QUOTA
    ),
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
    _broker.counter(
        "ottla_broker_transaction_markers_total", "Markers that end transactions, appended for their coordinators."
    ),
    _broker.counter(
        "ottla_broker_transaction_verifications_total",
        "Questions to coordinators whether partitions are a part of a transaction, or to make them one.",
    ),
    _broker.counter(
        "ottla_broker_transaction_verification_failures_total",
        "Those of the questions that were answered no, or not at all, for a partition.",
    ),
)
