"""Which of a connector and its tasks a restart request means."""

import pytest

from ottla_connect.connector_states import State, Status
from ottla_connect.herder.api import ConnectorStatus, ConnectorType
from ottla_connect.herder.restarts import restart_plan


def status(connector: State, *tasks: State) -> ConnectorStatus:
    def one(state: State) -> Status:
        return Status(state=state, worker_id="127.0.0.1:8083", trace="boom" if state is State.FAILED else "")

    return ConnectorStatus(
        name="flights",
        connector=one(connector),
        tasks={number: one(state) for number, state in enumerate(tasks)},
        type=ConnectorType.SOURCE,
    )


RUNNING, FAILED, RESTARTING, PAUSED = State.RUNNING, State.FAILED, State.RESTARTING, State.PAUSED


@pytest.mark.parametrize(
    ("include_tasks", "only_failed", "connector", "tasks"),
    [
        (True, False, RESTARTING, [RESTARTING, RESTARTING, RESTARTING]),
        (True, True, RUNNING, [RUNNING, RESTARTING, PAUSED]),
        (False, True, RUNNING, [RUNNING, FAILED, PAUSED]),
        (False, False, RESTARTING, [RUNNING, FAILED, PAUSED]),
    ],
)
def test_a_plan_names_what_is_meant(include_tasks, only_failed, connector, tasks):
    plan = restart_plan(
        status(RUNNING, RUNNING, FAILED, PAUSED), include_tasks=include_tasks, only_failed=only_failed
    )
    assert plan.connector.state is connector
    assert [plan.tasks[number].state for number in range(3)] == tasks


def test_a_failed_connector_is_meant_by_only_failed():
    plan = restart_plan(status(FAILED, RUNNING), include_tasks=True, only_failed=True)
    assert plan.connector.state is RESTARTING
    assert plan.tasks[0].state is RUNNING


def test_what_restarts_has_no_trace_any_more():
    plan = restart_plan(status(FAILED, FAILED), include_tasks=True, only_failed=True)
    assert (plan.connector.trace, plan.tasks[0].trace) == ("", "")
