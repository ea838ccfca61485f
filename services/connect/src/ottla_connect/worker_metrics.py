"""What a worker shows of itself at its Prometheus endpoint.

States are of what is assigned to this worker, so that the sum over all workers is the cluster's. Readings of tasks
come from their processes every few seconds: the runtime's under names of their own, those that a plugin makes up
under one name, with theirs as a label. They begin at nought when a task is started again.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ottla_connect.group.membership import Assignment
from ottla_connect.herder.api import State, Status
from ottla_connect.ids import TaskId
from ottla_connect.worker_counts import WorkerCounts
from ottla_core.config import HostPort
from ottla_core.observe.metrics import NO_ATTRIBUTES, Attributes, MetricsServer

Observations = Iterable[tuple[float, Attributes]]
Measured = Mapping[TaskId, Mapping[str, float]]

COUNTER_SUFFIX = "-total"
MILLISECONDS_SUFFIX = "-ms"

# The runtime's readings, named as Kafka Connect names those of its tasks (TaskMetricsGroup, SinkTaskMetricsGroup …).
READINGS = {
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
    "last-error-timestamp": "When the last error with a record was, in milliseconds since the epoch.",
}
GROWING = frozenset(name for name in READINGS if name.endswith(COUNTER_SUFFIX) or name.startswith("total-")) | {
    "deadletterqueue-produce-requests",
    "deadletterqueue-produce-failures",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReadings:
    """Where a worker's present state is read, whenever somebody asks.

    Attributes:
        counts: what it counts.
        assignment: returns what is assigned to it; None while it is no member of its group.
        connector_status: returns a connector's status.
        task_status: returns a task's status.
        measured: returns the last readings of each task.
    """

    counts: WorkerCounts
    assignment: Callable[[], Assignment | None]
    connector_status: Callable[[str], Status | None]
    task_status: Callable[[TaskId], Status | None]
    measured: Callable[[], Measured]


def serve_metrics(listener: HostPort, worker_id: str, readings: WorkerReadings) -> MetricsServer:
    """Open the endpoint.

    Raises:
        MetricsError: its port is in use.
    """
    metrics = MetricsServer("ottla-connect", worker_id, listener)
    _add_group(metrics, readings)
    _add_requests(metrics, readings.counts)
    _add_states(metrics, readings)
    _add_readings(metrics, readings.measured)
    return metrics


def _add_group(metrics: MetricsServer, readings: WorkerReadings) -> None:
    counts = readings.counts
    metrics.gauge(
        "ottla_connect_member", "Whether the worker is a member of its group.", "1", lambda: member(readings)
    )
    metrics.gauge("ottla_connect_leader", "Whether the worker leads its group.", "1", lambda: leader(readings))
    metrics.gauge("ottla_connect_generation", "The group's generation.", "1", lambda: generation(readings))
    _counter(metrics, "rebalances", "Assignments carried out.", "1", lambda: counts.rebalances)
    _counter(metrics, "rebalance_time", "Time spent carrying assignments out.", "s", lambda: counts.rebalance_s)
    _counter(metrics, "memberships_lost", "Memberships lost.", "1", lambda: counts.memberships_lost)


def _add_requests(metrics: MetricsServer, counts: WorkerCounts) -> None:
    metrics.counter(
        "ottla_connect_rest_requests", "REST requests, by method and status.", "1", lambda: requests(counts)
    )
    _counter(metrics, "rest_request_time", "Time spent on REST requests.", "s", lambda: counts.request_s)


def _add_states(metrics: MetricsServer, readings: WorkerReadings) -> None:
    metrics.gauge(
        "ottla_connect_connectors", "Connectors of this worker, by state.", "1", lambda: connector_states(readings)
    )
    metrics.gauge(
        "ottla_connect_tasks", "Tasks of this worker, by connector and state.", "1", lambda: task_states(readings)
    )


def _add_readings(metrics: MetricsServer, measured: Callable[[], Measured]) -> None:
    for name, description in READINGS.items():
        add = metrics.counter if name in GROWING else metrics.gauge
        unit = "ms" if name.endswith(MILLISECONDS_SUFFIX) else "1"
        add(metric_name(name), description, unit, _reader(name, measured))
    metrics.gauge(
        "ottla_connect_plugin_reading",
        "What plugins measure, by connector, task and name.",
        "1",
        lambda: plugin_readings(measured()),
    )


def _counter(metrics: MetricsServer, name: str, description: str, unit: str, read: Callable[[], float]) -> None:
    metrics.counter(f"ottla_connect_{name}", description, unit, lambda: [(read(), NO_ATTRIBUTES)])


def _reader(name: str, measured: Callable[[], Measured]) -> Callable[[], Observations]:
    return lambda: runtime_reading(name, measured())


def metric_name(reading: str) -> str:
    """Return the metric's name of a runtime's reading; exporters add the unit and ``_total`` to it."""
    bare = reading.removesuffix(COUNTER_SUFFIX).removesuffix(MILLISECONDS_SUFFIX).removeprefix("total-")
    return f"ottla_connect_{bare.replace('-', '_')}"


def member(readings: WorkerReadings) -> Observations:
    """Return 1 if the worker is a member of its group, else 0."""
    return [(float(readings.assignment() is not None), NO_ATTRIBUTES)]


def leader(readings: WorkerReadings) -> Observations:
    """Return 1 if the worker leads its group, else 0."""
    assignment = readings.assignment()
    return [(float(assignment is not None and assignment.is_leader), NO_ATTRIBUTES)]


def generation(readings: WorkerReadings) -> Observations:
    """Return the group's generation, if the worker is a member."""
    assignment = readings.assignment()
    return [] if assignment is None else [(assignment.generation, NO_ATTRIBUTES)]


def requests(counts: WorkerCounts) -> Observations:
    """Return how many requests there were of each method and status."""
    return [
        (count, {"method": method, "status": str(status)})
        for (method, status), count in tuple(counts.requests.items())
    ]


def connector_states(readings: WorkerReadings) -> Observations:
    """Return how many of the worker's connectors are in each state."""
    assignment = readings.assignment()
    names = assignment.connectors if assignment is not None else frozenset[str]()
    counted = Counter(_state(readings.connector_status(name)) for name in names)
    return [(counted[state], {"state": state.value}) for state in State]


def task_states(readings: WorkerReadings) -> Observations:
    """Return how many of the worker's tasks are in each state, by connector."""
    assignment = readings.assignment()
    tasks = assignment.tasks if assignment is not None else frozenset[TaskId]()
    counted = Counter((task.connector, _state(readings.task_status(task))) for task in tasks)
    return [(count, {"connector": name, "state": state.value}) for (name, state), count in sorted(counted.items())]


def runtime_reading(name: str, measured: Measured) -> Iterator[tuple[float, Attributes]]:
    """Yield a reading of the runtime for each task that has it."""
    for task, values in tuple(measured.items()):
        if name in values:
            yield values[name], _labels(task)


def plugin_readings(measured: Measured) -> Iterator[tuple[float, Attributes]]:
    """Yield what plugins measure."""
    for task, values in tuple(measured.items()):
        for name, value in values.items():
            if name not in READINGS:
                yield value, {**_labels(task), "name": name}


def _state(status: Status | None) -> State:
    return State.UNASSIGNED if status is None else status.state


def _labels(task: TaskId) -> Attributes:
    return {"connector": task.connector, "task": str(task.task)}
