"""What a worker shows at its Prometheus endpoint."""

import urllib.request
from collections.abc import Mapping

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from ottla_connect.connector_states import State, Status
from ottla_connect.group.membership import Assignment, Revoked
from ottla_connect.ids import TaskId
from ottla_connect.task.measures import TaskMeasures
from ottla_connect.worker_counts import CountRequests, WorkerCounts
from ottla_connect.worker_metrics import (
    WorkerReadings,
    connector_states,
    generation,
    leader,
    plugin_readings,
    requests,
    runtime_reading,
    serve_metrics,
    task_states,
)
from ottla_core.config import HostPort, MetricsSettings
from ottla_core.observe.catalogue.connect import TASK_READINGS, metric_name
from ottla_core.observe.traces import SpanCounts
from tests.support.free_ports import free_port_block

A0, A1, B0 = TaskId("a", 0), TaskId("a", 1), TaskId("b", 0)
MEASURED: Mapping[TaskId, Mapping[str, float]] = {
    A0: {"sink-record-read-total": 10, "rows": 3},
    A1: {"sink-record-read-total": 12},
    B0: {"poll-batch-avg-time-ms": 1.5},
}


def assignment(*, is_leader: bool = True) -> Assignment:
    return Assignment(
        connectors=frozenset({"a", "b"}),
        tasks=frozenset({A0, A1, B0}),
        leader_id="w",
        leader_url="http://w:1",
        is_leader=is_leader,
        generation=7,
        config_offset=3,
        member_urls={},
    )


def readings(assigned: Assignment | None) -> WorkerReadings:
    statuses = {"a": State.RUNNING, A0: State.RUNNING, A1: State.FAILED, B0: State.RUNNING}

    def status(subject: str | TaskId) -> Status | None:
        return Status(state=statuses[subject], worker_id="w:1") if subject in statuses else None

    return WorkerReadings(
        counts=WorkerCounts(),
        assignment=lambda: assigned,
        connector_status=status,
        task_status=status,
        measured=lambda: MEASURED,
    )


def test_states_are_those_of_what_the_worker_has() -> None:
    states = {attributes["state"]: count for count, attributes in connector_states(readings(assignment()))}
    assert (states["RUNNING"], states["UNASSIGNED"], states["FAILED"]) == (1, 1, 0)
    assert list(task_states(readings(assignment()))) == [
        (1, {"connector": "a", "state": "FAILED"}),
        (1, {"connector": "a", "state": "RUNNING"}),
        (1, {"connector": "b", "state": "RUNNING"}),
    ]
    assert list(task_states(readings(None))) == []
    assert sum(count for count, _ in connector_states(readings(None))) == 0


def test_the_group_is_shown_as_far_as_the_worker_is_in_it() -> None:
    inside, outside = readings(assignment(is_leader=False)), readings(None)
    assert (leader(inside), list(generation(inside))) == (0, [(7, {})])
    assert (leader(outside), list(generation(outside))) == (0, [])
    assert leader(readings(assignment())) == 1


def test_readings_bear_their_task_and_a_plugins_own_its_name() -> None:
    assert list(runtime_reading("sink-record-read-total", MEASURED)) == [
        (10, {"connector": "a", "task": "0"}),
        (12, {"connector": "a", "task": "1"}),
    ]
    assert list(plugin_readings(MEASURED)) == [(3, {"connector": "a", "task": "0", "name": "rows"})]


def test_every_reading_of_the_runtime_has_a_metric_of_its_own() -> None:
    measured = TaskMeasures("source").readings().keys() | TaskMeasures("sink").readings().keys()
    spans = {f"trace-spans-{outcome}-total" for outcome in SpanCounts().by_outcome()}
    assert TASK_READINGS.keys() == measured | {"waiting-time-ms"} | spans
    assert len({metric_name(name) for name in TASK_READINGS}) == len(TASK_READINGS)


async def test_rebalances_and_losses_are_counted_when_they_are_over() -> None:
    counts, seen = WorkerCounts(), []

    async def on_assigned(taken: Assignment, _: Revoked) -> None:
        seen.append((taken, counts.rebalances))

    async def on_lost() -> None:
        seen.append("lost")

    await counts.counting_assignments(on_assigned)(assignment(), Revoked(frozenset(), frozenset()))
    await counts.counting_losses(on_lost)()
    assert seen == [(assignment(), 0), "lost"]
    assert (counts.rebalances, counts.memberships_lost) == (1, 1)


async def test_requests_are_counted_by_method_and_status() -> None:
    def answer(request: Request) -> PlainTextResponse:
        if request.url.path == "/broken":
            raise RuntimeError("broken")
        return PlainTextResponse("yes")

    counts = WorkerCounts()
    app = CountRequests(Starlette(routes=[Route("/", answer), Route("/broken", answer)]), counts)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://worker") as client:
        for path in ("/", "/", "/nowhere", "/broken"):
            await client.get(path)
    counted = {(attributes["method"], attributes["status"]): count for count, attributes in requests(counts)}
    assert counted == {("GET", "200"): 2, ("GET", "404"): 1, ("GET", "500"): 1}
    assert counts.request_s > 0


async def test_prometheus_gets_them() -> None:
    port = free_port_block(1)
    settings = MetricsSettings(metrics_listener=HostPort("127.0.0.1", port))
    metrics = serve_metrics(settings, "w:1", readings(assignment()))
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
    finally:
        metrics.close()
    shown = [line for line in lines if line.startswith("ottla_connect_")]
    for beginning in (
        'ottla_connect_sink_record_read_total{connector="a"',
        'ottla_connect_poll_batch_avg_time_milliseconds{connector="b"',
        "ottla_connect_plugin_reading",
        "ottla_connect_tasks",
        "ottla_connect_rebalances_total",
    ):
        assert any(line.startswith(beginning) for line in shown), (beginning, shown)
