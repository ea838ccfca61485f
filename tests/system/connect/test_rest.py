"""The REST API of real workers: one test for each of Kafka Connect's resources, its shapes, statuses and errors.

Two workers of `ottla up --connect` share the connectors; requests go to the one that does not lead, so that most of
what changes anything is forwarded. The tests use connectors of their own, and share the cluster.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

import httpx
import pytest

from ottla_core.build_info import source_commit
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

ROWS = 40
STATUS_KEYS = {"state", "worker_id", "version"}


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The URLs of both workers."""
    directory = tmp_path_factory.mktemp("connect") / "cluster"
    quick_commits = ("--set", "connect:offset.flush.interval.ms=200")
    with OttlaCluster(directory, arguments=("--connect", "2", "--connect-port", "0", *quick_commits)):
        yield json.loads((directory / "cluster.json").read_text())["connect"]


@pytest.fixture(scope="module")
def rest(workers: list[str]) -> Iterator[httpx.Client]:
    """A client of the worker that does not lead."""
    (follower,) = (url for url in workers if not leads(url))
    with httpx.Client(base_url=follower, timeout=60.0, trust_env=False) as client:
        yield client


def leads(url: str) -> bool:
    """Whether a worker would not forward a request that only the leader answers."""
    answer = httpx.delete(f"{url}/connectors/none?forward=false", timeout=60.0, trust_env=False)
    assert answer.status_code in (404, 409), answer.text
    return answer.status_code == 404


@pytest.fixture
def made(rest: httpx.Client, request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Makes connectors of datagen, whose names begin with the test's; they are deleted at its end."""
    names = []

    def make(suffix: str = "", **settings: str) -> str:
        name = request.node.name + suffix
        config = {
            "connector.class": "ottla_datagen.DatagenSource", "topic": request.node.name,
            "datagen.quickstart": "users", "datagen.count": str(ROWS), "datagen.rate": "0",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }  # fmt: skip
        answer = rest.post("/connectors", json={"name": name, "config": config})
        assert answer.status_code == 201, answer.text
        names.append(name)
        eventually(lambda: states(rest, name) == ["RUNNING", "RUNNING"], f"{name} and its task run")
        return name

    yield make
    for name in names:
        rest.delete(f"/connectors/{name}")


def states(rest: httpx.Client, name: str) -> list[str]:
    """The state of a connector, then those of its tasks; none while it is not known yet."""
    answer = rest.get(f"/connectors/{name}/status")
    if answer.status_code == 404:
        return []
    document = answer.json()
    return [document["connector"]["state"], *(task["state"] for task in document["tasks"])]


def error(answer: httpx.Response) -> tuple[int, str]:
    """Status and message of a refusal, whose body must be Kafka Connect's."""
    document = answer.json()
    assert document.keys() == {"error_code", "message"}
    assert document["error_code"] == answer.status_code
    return answer.status_code, document["message"]


def test_the_root_names_version_and_cluster(rest):
    document = rest.get("/").json()
    assert document.keys() == {"version", "commit", "kafka_cluster_id"}
    assert len(document["kafka_cluster_id"]) == 22
    assert (document["version"], document["commit"]) == (version("ottla-connect"), source_commit())


def test_health(rest):
    document = rest.get("/health").json()
    assert (document["status"], document.keys()) == ("healthy", {"status", "message"})


def test_create(rest, made):
    name = made()
    answer = rest.get(f"/connectors/{name}")
    assert answer.json().keys() == {"name", "config", "tasks", "type"}
    assert answer.json()["tasks"] == [{"connector": name, "task": 0}]
    assert answer.json()["type"] == "source"
    config = answer.json()["config"]
    assert config["name"] == name
    again = rest.post("/connectors", json={"name": name, "config": config})
    assert error(again) == (409, f"Connector {name} already exists")


def test_create_in_another_state(rest):
    config = {"connector.class": "DatagenSource", "topic": "t", "datagen.quickstart": "users"}
    body = {"name": "waiting", "config": config, "initial_state": "STOPPED"}
    answer = rest.post("/connectors", json=body)
    assert answer.headers["location"] == f"{rest.base_url}/connectors/waiting"
    eventually(lambda: states(rest, "waiting") == ["STOPPED"], "it is stopped")
    assert rest.delete("/connectors/waiting").status_code == 204


def test_bad_configuration_names_every_faulty_field_at_once(rest):
    config = {
        "connector.class": "ottla_datagen.DatagenSource", "datagen.quickstart": "users", "tasks.max": "many",
        "datagen.count": "few", "transforms": "a", "errors.tolerance": "some",
    }  # fmt: skip
    faulty = {"topic", "tasks.max", "datagen.count", "transforms.a.type", "errors.tolerance"}
    status, message = error(rest.post("/connectors", json={"name": "bad", "config": config}))
    assert status == 400
    assert message.startswith(f"The connector's settings have {len(faulty)} error(s)")
    assert all(key in message for key in faulty)
    document = rest.put("/connector-plugins/DatagenSource/config/validate", json={**config, "name": "bad"}).json()
    assert document.keys() == {"name", "error_count", "groups", "configs"}
    assert document["error_count"] == len(faulty)
    values = [each["value"] for each in document["configs"]]
    assert {each["name"] for each in values if each["errors"]} == faulty
    assert all(each.keys() == {"definition", "value"} for each in document["configs"])
    assert all(each.keys() == {"name", "value", "recommended_values", "errors", "visible"} for each in values)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "x", "config": {"topic": "t"}}, 400),
        ({"name": "x", "config": {"connector.class": "no.such.Class"}}, 400),
        ({"name": "a\tb", "config": {"connector.class": "DatagenSource"}}, 400),
        ({"name": "x", "config": []}, 500),
    ],
)
def test_what_cannot_be_created_is_refused(rest, body, status):
    assert error(rest.post("/connectors", json=body))[0] == status
    assert rest.get("/connectors/x").status_code == 404


def test_list_and_expand(rest, made):
    name = made()
    assert name in rest.get("/connectors").json()
    expanded = rest.get("/connectors?expand=status&expand=info").json()[name]
    assert expanded == {
        "status": rest.get(f"/connectors/{name}/status").json(),
        "info": rest.get(f"/connectors/{name}").json(),
    }


def test_config_put_and_patch(rest, made):
    name = made()
    path = f"/connectors/{name}/config"
    config = rest.get(path).json()
    changed = rest.put(path, json={**config, "tasks.max": "2"})
    assert (changed.status_code, changed.json()["config"]["tasks.max"]) == (200, "2")
    eventually(lambda: states(rest, name) == ["RUNNING"] * 3, "there are two tasks")
    patched = rest.patch(path, json={"tasks.max": None, "datagen.seed": 7})
    assert patched.status_code == 200
    assert patched.json()["config"] == {**config, "datagen.seed": "7"}
    eventually(lambda: rest.get(path).json() == patched.json()["config"], "every worker has read it")
    assert error(rest.put(path, json={**config, "name": "other"}))[0] == 400
    assert error(rest.patch(path, json={"topic": None}))[0] == 400
    assert error(rest.patch("/connectors/none/config", json={}))[0] == 404


def test_status_tasks_and_their_settings(rest, made):
    name = made()
    document = rest.get(f"/connectors/{name}/status").json()
    assert document.keys() == {"name", "connector", "tasks", "type"}
    assert document["connector"].keys() == STATUS_KEYS
    (task,) = document["tasks"]
    assert task.keys() == {"id", *STATUS_KEYS}
    assert rest.get(f"/connectors/{name}/tasks/0/status").json() == task
    (info,) = rest.get(f"/connectors/{name}/tasks").json()
    assert info["id"] == {"connector": name, "task": 0}
    assert info["config"]["topic"] == name
    assert error(rest.get(f"/connectors/{name}/tasks/9/status")) == (404, f"No status found for task {name}-9")
    assert error(rest.get("/connectors/none/status")) == (404, "No status found for connector none")
    assert error(rest.get("/connectors/none/tasks"))[0] == 404


def test_a_failed_task_shows_its_trace(rest, tmp_path, made):
    made()
    target = tmp_path / "target"
    target.mkdir()
    config = {
        "connector.class": "FileSink", "topics": "test_a_failed_task_shows_its_trace", "file.directory": str(target),
        "value.converter": "ottla_standard.LongConverter", "task.restart.attempts.max": "0",
    }  # fmt: skip
    assert rest.post("/connectors", json={"name": "failing", "config": config}).status_code == 201
    eventually(lambda: states(rest, "failing") == ["RUNNING", "FAILED"], "its task has failed")
    task = rest.get("/connectors/failing/tasks/0/status").json()
    assert task.keys() == {"id", "trace", *STATUS_KEYS}
    assert "Traceback" in task["trace"]
    restarted = rest.post("/connectors/failing/restart?includeTasks=true&onlyFailed=true")
    assert restarted.status_code == 202
    assert [each["state"] for each in restarted.json()["tasks"]] == ["RESTARTING"]
    assert restarted.json()["connector"]["state"] == "RUNNING"
    assert rest.delete("/connectors/failing").status_code == 204


def test_restart(rest, made):
    name = made()
    assert rest.post(f"/connectors/{name}/restart").status_code == 204
    answer = rest.post(f"/connectors/{name}/restart?includeTasks=true")
    assert answer.status_code == 202
    assert answer.json()["connector"]["state"] == answer.json()["tasks"][0]["state"] == "RESTARTING"
    eventually(lambda: states(rest, name) == ["RUNNING", "RUNNING"], "it runs again")
    assert rest.post(f"/connectors/{name}/tasks/0/restart").status_code == 204
    eventually(lambda: states(rest, name) == ["RUNNING", "RUNNING"], "its task runs again")
    assert error(rest.post(f"/connectors/{name}/tasks/9/restart")) == (404, f"Unknown task: {name}-9")
    assert error(rest.post("/connectors/none/restart")) == (404, "Unknown connector: none")


def test_pause_resume_and_stop(rest, made):
    name = made()
    assert rest.put(f"/connectors/{name}/pause").status_code == 202
    assert error(rest.put("/connectors/none/pause")) == (404, "Unknown connector none")
    eventually(lambda: states(rest, name) == ["PAUSED", "PAUSED"], "it has paused")
    assert rest.put(f"/connectors/{name}/stop").status_code == 204
    eventually(lambda: states(rest, name) == ["STOPPED"], "it has stopped")
    assert rest.get(f"/connectors/{name}/tasks").json() == []
    assert rest.put(f"/connectors/{name}/resume").status_code == 202
    eventually(lambda: states(rest, name) == ["RUNNING", "RUNNING"], "it runs again")


def test_topics_and_their_reset(rest, made):
    name = made()
    used = {name: {"topics": [name]}}
    eventually(lambda: rest.get(f"/connectors/{name}/topics").json() == used, "its topic is recorded")
    rest.put(f"/connectors/{name}/stop")
    eventually(lambda: states(rest, name) == ["STOPPED"], "it has stopped")
    reset = rest.put(f"/connectors/{name}/topics/reset")
    assert (reset.status_code, reset.content) == (202, b"")
    none = {name: {"topics": []}}
    eventually(lambda: rest.get(f"/connectors/{name}/topics").json() == none, "they are forgotten")


def test_offsets_of_a_source(rest, made):
    name = made()
    path = f"/connectors/{name}/offsets"
    committed = eventually(lambda: rest.get(path).json()["offsets"], "it has committed offsets")
    assert all(each.keys() == {"partition", "offset"} for each in committed)
    status, message = error(rest.delete(path))
    assert (status, "Only a stopped connector's" in message) == (400, True)
    rest.put(f"/connectors/{name}/stop")
    eventually(lambda: states(rest, name) == ["STOPPED"], "it has stopped")
    committed = rest.get(path).json()["offsets"]
    assert error(rest.patch(path, json={"offsets": []}))[0] == 400
    removed = {"offsets": [{"partition": committed[0]["partition"], "offset": None}]}
    altered = rest.patch(path, json=removed)
    assert altered.json() == {"message": "The offsets for this connector have been altered successfully"}
    assert rest.get(path).json()["offsets"] == committed[1:]
    assert rest.delete(path).json() == {"message": "The offsets for this connector have been reset successfully"}
    assert rest.get(path).json() == {"offsets": []}
    assert error(rest.get("/connectors/none/offsets"))[0] == 404


def test_offsets_of_a_sink(rest, made, tmp_path):
    topic = made()
    target = tmp_path / "target"
    target.mkdir()
    config = {
        "connector.class": "FileSink", "topics": topic, "file.directory": str(target), "file.roll.rows": str(ROWS),
    }  # fmt: skip
    assert rest.post("/connectors", json={"name": "sink", "config": config}).status_code == 201
    partition = {"kafka_topic": topic, "kafka_partition": 0}

    def offset() -> Any:
        pairs = rest.get("/connectors/sink/offsets").json()["offsets"]
        return next((each["offset"] for each in pairs if each["partition"] == partition), None)

    eventually(lambda: offset() == {"kafka_offset": ROWS}, "it has written everything")
    rest.put("/connectors/sink/stop")
    eventually(lambda: states(rest, "sink") == ["STOPPED"], "it has stopped")
    document = {"offsets": [{"partition": partition, "offset": {"kafka_offset": 7}}]}
    status, message = error(rest.patch("/connectors/sink/offsets", json=document))
    assert (status, "remove or move" in message) == (400, True), "the connector itself is asked"
    shutil.rmtree(target)
    target.mkdir()
    altered = rest.patch("/connectors/sink/offsets", json=document)
    assert altered.status_code == 200, altered.text
    assert offset() == {"kafka_offset": 7}
    wrong = {"offsets": [{"partition": {"topic": topic}, "offset": {"kafka_offset": 7}}]}
    assert error(rest.patch("/connectors/sink/offsets", json=wrong))[0] == 400
    assert rest.delete("/connectors/sink/offsets").status_code == 200
    assert offset() is None
    assert rest.delete("/connectors/sink").status_code == 204


def test_plugins_and_their_settings(rest):
    plugins = rest.get("/connector-plugins").json()
    assert {"class": "ottla_datagen.DatagenSource", "type": "source", "version": version("ottla-datagen")} in plugins
    assert {each["type"] for each in plugins} == {"sink", "source"}
    every = rest.get("/connector-plugins?connectorsOnly=false").json()
    assert {"transformation", "predicate", "converter", "header_converter"} <= {each["type"] for each in every}
    settings = rest.get("/connector-plugins/DatagenSource/config").json()
    (topic,) = (each for each in settings if each["name"] == "topic")
    assert topic.keys() == {
        "name", "type", "required", "default_value", "importance", "documentation", "group", "order_in_group",
        "width", "display_name", "dependents",
    }  # fmt: skip
    assert topic["required"]
    assert error(rest.get("/connector-plugins/none/config"))[0] == 404


def test_loggers(rest, workers):
    assert rest.get("/admin/loggers/root").json().keys() == {"level", "last_modified"}
    changed = rest.put("/admin/loggers/ottla.test", json={"level": "debug"})
    assert "ottla.test" in changed.json()
    assert rest.get("/admin/loggers/ottla.test").json()["level"] == "DEBUG"
    assert rest.put("/admin/loggers/ottla.all?scope=cluster", json={"level": "DEBUG"}).status_code == 204
    for url in workers:
        eventually(
            lambda url=url: httpx.get(f"{url}/admin/loggers", trust_env=False).json().get("ottla.all"),
            f"{url} has set the level",
        )
    assert error(rest.put("/admin/loggers/x", json={"level": "loud"})) == (404, "invalid log level 'loud'.")
    assert error(rest.put("/admin/loggers/x", json={}))[0] == 400
    assert error(rest.get("/admin/loggers/none.such"))[0] == 404


def test_logs_come_from_the_worker_that_has_them(workers, made):
    name = made()
    for url in workers:
        document = httpx.get(f"{url}/connectors/{name}/logs?task=0&lines=5", trust_env=False).json()
        assert document.keys() == {"connector", "task", "lines"}
        assert len(document["lines"]) <= 5


@pytest.mark.parametrize("name", ["a/b", "é 100%", "a b+c;d?e#f"])
def test_names_may_have_any_characters(rest, name):
    config = {"connector.class": "DatagenSource", "topic": "odd", "datagen.quickstart": "users", "datagen.count": "1"}
    answer = rest.post("/connectors", json={"name": name, "config": config})
    assert answer.status_code == 201, answer.text
    path = answer.headers["location"]

    def runs() -> bool:
        found = rest.get(f"{path}/status")
        return found.status_code == 200 and [each["state"] for each in found.json()["tasks"]] == ["RUNNING"]

    eventually(runs, "its task runs")
    assert rest.get(f"{path}/tasks").json()[0]["id"] == {"connector": name, "task": 0}
    assert rest.delete(path).status_code == 204
    eventually(lambda: rest.get(path).status_code == 404, "it is gone")


def test_what_only_workers_may_ask_is_refused(rest, made):
    name = made()
    headers = {"Content-Type": "application/json"}
    unsigned = rest.post(f"/connectors/{name}/tasks", content=b"[]", headers=headers)
    assert error(unsigned) == (400, "Internal request missing required signature")
    forged = {"X-Connect-Authorization": "aaaa", "X-Connect-Request-Signature-Algorithm": "HmacSHA256"}
    answer = rest.post(f"/connectors/{name}/tasks", content=b"[]", headers={**headers, **forged})
    assert error(answer) == (403, "Internal request contained invalid signature.")
    assert states(rest, name) == ["RUNNING", "RUNNING"]


def test_delete(rest, made):
    name = made()
    assert rest.delete(f"/connectors/{name}").status_code == 204
    eventually(lambda: rest.get(f"/connectors/{name}").status_code == 404, "it is gone")
    assert name not in rest.get("/connectors").json()
    assert error(rest.delete(f"/connectors/{name}")) == (404, f"Connector {name} not found")
