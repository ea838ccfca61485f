"""What Connect workers show.

Readings of tasks are named as Kafka Connect names those of its tasks (TaskMetricsGroup, SinkTaskMetricsGroup …).
"""

from collections.abc import Mapping
from typing import Final

from ottla_core.observe.catalogue.definition import Label, MetricDefinition, MetricFamily, ProcessRole

_connect = MetricFamily(ProcessRole.CONNECT)

METHOD = Label("method", "method of HTTP", "those of the REST API")
STATUS = Label("status", "status of HTTP", "those that the REST API answers with")
STATE = Label("state", "state, as the REST API spells it", "Connect's states")
CONNECTOR = Label("connector", "name of the connector", "the cluster's connectors")
TASK = Label("task", "number of the task", "tasks.max of the connector")
READING = Label("name", "name that the plugin gives the reading", "what plugins measure")

TASK_READINGS: Final[Mapping[str, str]] = {
    "source-record-poll-total": "Records that source tasks have brought.",
    "source-record-write-total": "Records of source tasks that topics have acknowledged.",
    "source-record-active-count": "Records of source tasks that topics have not acknowledged yet.",
    "sink-record-read-total": "Records that sink tasks have read from topics.",
    "sink-record-send-total": "Records that sink tasks have taken.",
    "sink-record-active-count": "Records that sink tasks have read and not taken yet.",
    "poll-batch-avg-time-ms": "Average time of a source task's poll.",
    "poll-batch-max-time-ms": "Longest time of a source task's poll.",
    "put-batch-avg-time-ms": "Average time of a sink task's put.",
    "put-batch-max-time-ms": "Longest time of a sink task's put.",
    "batch-size-avg": "Average number of records in a batch.",
    "batch-size-max": "Most records in a batch.",
    "offset-commit-avg-time-ms": "Average time of a commit of offsets.",
    "offset-commit-max-time-ms": "Longest time of a commit of offsets.",
    "offset-commit-completion-total": "Commits of offsets that succeeded.",
    "offset-commit-failure-total": "Commits of offsets that failed.",
    "offset-commit-success-percentage": "Share of commits of offsets that succeeded, from 0 to 1.",
    "offset-commit-failure-percentage": "Share of commits of offsets that failed, from 0 to 1.",
    "partition-count": "Partitions that a sink task has.",
    "total-record-failures": "Failures with records, before they were tried again.",
    "total-record-errors": "Records that could not be dealt with.",
    "total-records-skipped": "Records that were left out because of an error.",
    "total-retries": "Operations that were tried again.",
    "total-errors-logged": "Errors with records that were logged.",
    "deadletterqueue-produce-requests": "Records sent to the dead letter topic.",
    "deadletterqueue-produce-failures": "Records that the dead letter topic did not take.",
    "waiting-time-ms": "How long a task has been waiting for what it needs; 0 while it works.",
    "trace-spans-sent-total": "Spans of tasks that the receiver of traces has taken.",
    "trace-spans-undelivered-total": "Spans of tasks that the receiver of traces has not taken.",
    "trace-spans-dropped-total": "Spans of tasks that found the queue full.",
    "last-error-timestamp": "When the last error with a record was, in milliseconds since 1970.",
}
"""The runtime's readings of tasks, by their names in Kafka Connect."""

TOTAL_SUFFIX = "-total"
TOTAL_PREFIX = "total-"
MILLISECONDS_SUFFIX = "-ms"


def grows(reading: str) -> bool:
    """Return whether a reading only grows, until its task is started again."""
    return reading.endswith(TOTAL_SUFFIX) or reading.startswith((TOTAL_PREFIX, "deadletterqueue-"))


def metric_name(reading: str) -> str:
    """Return the metric's name of a runtime's reading."""
    bare = reading.removesuffix(TOTAL_SUFFIX).removeprefix(TOTAL_PREFIX)
    if reading.endswith(MILLISECONDS_SUFFIX):
        bare = f"{bare.removesuffix(MILLISECONDS_SUFFIX)}-milliseconds"
    return f"ottla_connect_{bare.replace('-', '_')}{'_total' if grows(reading) else ''}"


def _of_reading(reading: str, sentence: str) -> MetricDefinition:
    make = _connect.counter if grows(reading) else _connect.gauge
    return make(metric_name(reading), sentence, CONNECTOR, TASK)


CONNECT: Final[tuple[MetricDefinition, ...]] = (
    _connect.gauge("ottla_connect_member", "Whether the worker is a member of its group: 1 or 0."),
    _connect.gauge("ottla_connect_leader", "Whether the worker leads its group: 1 or 0."),
    _connect.gauge("ottla_connect_generation", "The group's generation."),
    _connect.counter("ottla_connect_rebalances_total", "Assignments carried out."),
    _connect.counter("ottla_connect_rebalance_time_seconds_total", "Time spent carrying assignments out."),
    _connect.counter("ottla_connect_memberships_lost_total", "Memberships lost."),
    _connect.counter("ottla_connect_rest_requests_total", "REST requests.", METHOD, STATUS),
    _connect.counter("ottla_connect_rest_request_time_seconds_total", "Time spent on REST requests."),
    _connect.counter(
        "ottla_connect_rest_failed_authentications_total",
        "REST requests whose certificate, token or password was refused.",
    ),
    _connect.counter("ottla_connect_rest_denials_total", "REST requests of users who may only read."),
    _connect.gauge("ottla_connect_connectors", "Connectors of this worker.", STATE),
    _connect.gauge("ottla_connect_tasks", "Tasks of this worker.", CONNECTOR, STATE),
    *(_of_reading(reading, sentence) for reading, sentence in TASK_READINGS.items()),
    _connect.gauge("ottla_connect_plugin_reading", "What plugins measure.", CONNECTOR, TASK, READING),
)
