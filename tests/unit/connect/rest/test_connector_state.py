"""Status, pause, resume, stop and restart of connectors, and their tasks."""

import pytest

from ottla_connect.connector_states import TargetState
from ottla_connect.ids import TaskId

WORKER = "127.0.0.1:8083"


@pytest.fixture(autouse=True)
def connector(herder):
    herder.configs["first"] = {"connector.class": "ottla_file.FileSink", "name": "first", "tasks.max": "2"}
    herder.targets["first"] = TargetState.STARTED


async def test_the_status_has_the_connector_and_its_tasks(rest, herder):
    herder.failed[TaskId("first", 1)] = "ValueError: no\n  in line 1"
    assert (await rest.get("/connectors/first/status")).json() == {
        "name": "first",
        "connector": {"state": "RUNNING", "worker_id": WORKER, "version": "1.0"},
        "tasks": [
            {"id": 0, "state": "RUNNING", "worker_id": WORKER, "version": "1.0"},
            {"id": 1, "state": "FAILED", "worker_id": WORKER, "trace": "ValueError: no\n  in line 1"},
        ],
        "type": "sink",
    }


async def test_a_task_has_a_status_of_its_own(rest):
    answer = await rest.get("/connectors/first/tasks/1/status")
    assert answer.json() == {"id": 1, "state": "RUNNING", "worker_id": WORKER, "version": "1.0"}


async def test_a_task_that_is_a_job_shows_its_progress(rest, herder):
    herder.progress[TaskId("first", 0)] = {"delays": {"lag": 7}}
    assert (await rest.get("/connectors/first/tasks/0/status")).json()["progress"] == {"delays": {"lag": 7}}
    tasks = (await rest.get("/connectors/first/status")).json()["tasks"]
    assert [task.get("progress") for task in tasks] == [{"delays": {"lag": 7}}, None]


@pytest.mark.parametrize("number", ["7", "-1", "x", "²", "99999999999999999999"])
async def test_a_task_that_is_not_there_is_404(rest, number):
    answer = await rest.get(f"/connectors/first/tasks/{number}/status")
    assert answer.status_code == answer.json()["error_code"] == 404


@pytest.mark.parametrize(
    ("action", "status", "state"),
    [("pause", 202, TargetState.PAUSED), ("stop", 204, TargetState.STOPPED), ("resume", 202, TargetState.STARTED)],
)
async def test_pause_stop_and_resume_set_the_target_state(rest, herder, action, status, state):
    herder.targets["first"] = TargetState.PAUSED
    answer = await rest.put(f"/connectors/first/{action}")
    assert (answer.status_code, answer.content) == (status, b"")
    assert herder.targets["first"] is state
    missing = await rest.put(f"/connectors/none/{action}")
    assert missing.status_code == missing.json()["error_code"] == 404


async def test_a_declared_media_type_that_is_not_json_is_refused_even_without_a_body(rest):
    answer = await rest.put("/connectors/first/pause", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415


@pytest.mark.parametrize(
    ("query", "status", "flags"),
    [
        ("", 204, (False, False)),
        ("?includeTasks=true", 202, (True, False)),
        ("?onlyFailed=TRUE", 202, (False, True)),
        ("?includeTasks=true&onlyFailed=true", 202, (True, True)),
        ("?includeTasks=yes", 204, (False, False)),  # as Java's Boolean reads it
    ],
)
async def test_a_restart_says_what_is_planned_unless_it_is_the_connector_alone(rest, herder, query, status, flags):
    answer = await rest.post(f"/connectors/first/restart{query}")
    assert answer.status_code == status
    assert herder.restarts == [("first", *flags)]
    assert bool(answer.content) == (status == 202)
    if answer.content:
        assert answer.json()["name"] == "first"


async def test_a_task_can_be_restarted(rest, herder):
    answer = await rest.post("/connectors/first/tasks/1/restart")
    assert (answer.status_code, answer.content) == (204, b"")
    assert herder.restarts == [(TaskId("first", 1),)]
    missing = await rest.post("/connectors/first/tasks/7/restart")
    assert missing.json() == {"error_code": 404, "message": "Unknown task: first-7"}


async def test_tasks_are_listed_with_their_settings(rest, herder):
    config = herder.configs["first"]
    assert (await rest.get("/connectors/first/tasks")).json() == [
        {"id": {"connector": "first", "task": 0}, "config": {**config, "task": "0"}},
        {"id": {"connector": "first", "task": 1}, "config": {**config, "task": "1"}},
    ]
    assert (await rest.get("/connectors/none/tasks")).status_code == 404


async def test_the_resource_that_kafka_4_removed_is_not_there(rest):
    assert (await rest.get("/connectors/first/tasks-config")).status_code == 404
