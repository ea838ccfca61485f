"""What a worker shows of itself. Pure.

States are of what is assigned to this worker, so that the sum over all workers is the cluster's. Readings of tasks
come from their processes every few seconds: the runtime's under names of their own, those that a plugin makes up
under one name, with theirs as a label. They begin at nought when a task is started again.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from ottla_connect.connector_states import State, Status
from ottla_connect.group.membership import Assignment
from ottla_connect.ids import TaskId
from ottla_connect.worker_counts import WorkerCounts
from ottla_core.config import MetricsSettings
from ottla_core.observe.catalogue.connect import TASK_READINGS, metric_name
from ottla_core.observe.catalogue.definition import ProcessRole
from ottla_core.observe.metrics import NO_LABELS, Labels, Metrics
from ottla_core.observe.publishing import publish_metrics

Observations = Iterable[tuple[float, Labels]]
Measured = Mapping[TaskId, Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReadings:
    """Where a worker's present state is read, whenever somebody asks.

    Labels:
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


def serve_metrics(config: MetricsSettings, worker_id: str, readings: WorkerReadings) -> ExitStack:
    """Begin to show the metrics; closing what is returned ends it.

    Raises:
        MetricsError: the endpoint's port is in use.
    """
    metrics = Metrics(ProcessRole.CONNECT, worker_id)
    _show_group(metrics, readings)
    _show_requests(metrics, readings.counts)
    metrics.show("ottla_connect_connectors", lambda: connector_states(readings))
    metrics.show("ottla_connect_tasks", lambda: task_states(readings))
    for name in TASK_READINGS:
        metrics.show(metric_name(name), _reader(name, readings.measured))
    metrics.show("ottla_connect_plugin_reading", lambda: plugin_readings(readings.measured()))
    return publish_metrics(metrics, config)


def _show_group(metrics: Metrics, readings: WorkerReadings) -> None:
    counts = readings.counts
    metrics.show_value("ottla_connect_member", lambda: float(readings.assignment() is not None))
    metrics.show_value("ottla_connect_leader", lambda: leader(readings))
    metrics.show("ottla_connect_generation", lambda: generation(readings))
    metrics.show_value("ottla_connect_rebalances_total", lambda: counts.rebalances)
    metrics.show_value("ottla_connect_rebalance_time_seconds_total", lambda: counts.rebalance_s)
    metrics.show_value("ottla_connect_memberships_lost_total", lambda: counts.memberships_lost)


def _show_requests(metrics: Metrics, counts: WorkerCounts) -> None:
    metrics.show("ottla_connect_rest_requests_total", lambda: requests(counts))
    metrics.show_value("ottla_connect_rest_request_time_seconds_total", lambda: counts.request_s)
    metrics.show_value(
        "ottla_connect_rest_failed_authentications_total", lambda: counts.access.failed_authentications
    )
    metrics.show_value("ottla_connect_rest_denials_total", lambda: counts.access.denials)


def _reader(name: str, measured: Callable[[], Measured]) -> Callable[[], Observations]:
    return lambda: runtime_reading(name, measured())


def leader(readings: WorkerReadings) -> float:
    """Return 1 if the worker leads its group, else 0."""
    assignment = readings.assignment()
    return float(assignment is not None and assignment.is_leader)


def generation(readings: WorkerReadings) -> Observations:
    """Return the group's generation, if the worker is a member."""
    assignment = readings.assignment()
    return [] if assignment is None else [(assignment.generation, NO_LABELS)]


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


def runtime_reading(name: str, measured: Measured) -> Iterator[tuple[float, Labels]]:
    """Yield a reading of the runtime for each task that has it."""
    for task, values in tuple(measured.items()):
        if name in values:
            yield values[name], _labels(task)


def plugin_readings(measured: Measured) -> Iterator[tuple[float, Labels]]:
    """Yield what plugins measure."""
    for task, values in tuple(measured.items()):
        for name, value in values.items():
            if name not in TASK_READINGS:
                yield value, {**_labels(task), "name": name}


def _state(status: Status | None) -> State:
    return State.UNASSIGNED if status is None else status.state


def _labels(task: TaskId) -> Labels:
    return {"connector": task.connector, "task": str(task.task)}
