"""What every process shows."""

from typing import Final

from ottla_core.observe.catalogue.definition import ALL_ROLES, Label, MetricDefinition, MetricFamily, ProcessRole
from ottla_core.observe.histogram import TIME_BUCKETS

_every = MetricFamily(*ALL_ROLES)

TASK = Label("task", "kind of task, as logs name it", "a few tens, fixed by the program")

OUTCOME = Label("outcome", "done or failed", "two")
METRIC = Label("metric", "name of a metric", "the catalogue")

KERNEL: Final[tuple[MetricDefinition, ...]] = (
    _every.counter("process_cpu_seconds_total", "Time on processors, of the program and of the kernel for it."),
    _every.gauge("process_resident_memory_bytes", "Memory that is in RAM, with what is shared."),
    _every.gauge("process_virtual_memory_bytes", "Addresses of memory that are in use."),
    _every.gauge("process_start_time_seconds", "When the process was started, in seconds since 1970."),
    _every.gauge("process_open_fds", "Open files, sockets among them."),
    _every.gauge("process_max_fds", "How many files the process may open."),
)
"""What the kernel knows; the names are those of all Prometheus clients."""

PROCESS: Final[tuple[MetricDefinition, ...]] = (
    *KERNEL,
    _every.histogram(
        "ottla_event_loop_delay_seconds",
        "How late the event loop comes to what is due, by a sample of four timers a second.",
        TIME_BUCKETS,
    ),
    _every.counter("ottla_background_task_failures_total", "Unexpected exceptions of background tasks.", TASK),
    _every.gauge(
        "ottla_metrics_series_left_out", "Series of a metric that are not shown because there are too many.", METRIC
    ),
    _every.counter("ottla_metrics_failed_readings_total", "Times that a metric could not be read.", METRIC),
    _every.counter(
        "ottla_metrics_otlp_pushes_total", "Pushes of metrics by OTLP; one that failed is not repeated.", OUTCOME
    ),
)

OPERATION = Label("operation", "etcd's name of an operation, such as Range or Txn", "a few, fixed by the program")

ETCD: Final[tuple[MetricDefinition, ...]] = (
    MetricFamily(ProcessRole.BROKER, ProcessRole.CONTROLLER, ProcessRole.GROUP_COORDINATOR).histogram(
        "ottla_etcd_time_seconds", "Time until etcd has answered, or an attempt has failed.", TIME_BUCKETS, OPERATION
    ),
)
"""What the processes show that use etcd."""

REASON = Label(
    "reason",
    "no_rule, unknown_identity, role_not_allowed, other_broker: a call to this process; peer_not_trusted, "
    "refused_by_peer: a call that it wanted to make",
    "six",
)
_internal = MetricFamily(ProcessRole.BROKER, ProcessRole.CONTROLLER, ProcessRole.GROUP_COORDINATOR)

RPC: Final[tuple[MetricDefinition, ...]] = (
    _internal.counter(
        "ottla_rpc_refusals_total",
        "Calls between processes that were refused for their certificates, and those that could not be made.",
        REASON,
    ),
    _internal.gauge(
        "ottla_rpc_certificate_expiry_seconds",
        "When the certificate ends by which other processes know this one, in seconds since 1970.",
    ),
    _internal.gauge(
        "ottla_rpc_outdated_certificates",
        "1 while the files of this certificate have changed and cannot be used, so that the former one stays.",
    ),
)
"""What the processes show that call each other, where they do with TLS."""

OUTCOME = Label(
    "outcome",
    "sent: the receiver has taken them; undelivered: it has not; dropped: they found the queue full",
    "three",
)

TRACES: Final[tuple[MetricDefinition, ...]] = (
    MetricFamily(ProcessRole.BROKER, ProcessRole.CONTROLLER).counter(
        "ottla_trace_spans_total", "Spans made, where traces are on.", OUTCOME
    ),
)
"""What the processes show that make spans of calls; those of Connect's tasks are among its own metrics."""
