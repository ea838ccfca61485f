"""`ottla connect` against the REST API over a scripted herder: what it sends, prints, and exits with."""

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from ottla.commands import connect_state
from ottla.main import main
from ottla_connect.connector_states import TargetState
from ottla_connect.herder.api import ConnectorStatus
from ottla_connect.herder.views import NOT_STARTED
from ottla_connect.ids import TaskId
from ottla_connect.rest.application import create_application
from ottla_core.rest.errors import Conflict
from ottla_core.rest.server import RestServer
from ottla_core.rest.settings import Listener
from ottla_operations.workers import worker_client
from tests.support.free_ports import free_port
from tests.unit.connect.rest.scripted_herder import ScriptedHerder

SOURCE = {"connector.class": "ottla_file.FileSource", "topic": "t"}


class RunningRest:
    """A REST API in a thread; `herder` is replaced before each test."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server = RestServer([Listener("http", "127.0.0.1", 0)])
        self._app = create_application(ScriptedHerder(), own_url="")
        self.url = str(self._server.bound[0])
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._server.serve(self._app), self._loop).result()

    def use(self, herder: ScriptedHerder) -> None:
        self._app.state.herder = herder

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._server.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="module")
def rest() -> Iterator[RunningRest]:
    with capture_logs():  # the worker's log would be among what the commands print
        running = RunningRest()
        yield running
        running.close()


@pytest.fixture
def herder(rest: RunningRest) -> ScriptedHerder:
    made = ScriptedHerder()
    rest.use(made)
    return made


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


@pytest.fixture
def ottla(rest: RunningRest, herder, monkeypatch, capfdbinary) -> Callable[..., Done]:
    def run(*arguments: str, url: str | None = None) -> Done:
        monkeypatch.setenv("OTTLA_CONNECT_URL", url or rest.url)
        monkeypatch.setattr(sys, "argv", ["ottla", "connect", *arguments])
        code = main()
        written = capfdbinary.readouterr()
        return Done(code, written.out.decode(), written.err.decode())

    return run


@pytest.fixture
def file(tmp_path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "connectors.yaml"
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture
def first(herder) -> ScriptedHerder:
    """A connector is there."""
    herder.configs["first"] = {**SOURCE, "name": "first", "tasks.max": "2"}
    herder.targets["first"] = TargetState.STARTED
    return herder


def test_connectors_of_a_file_are_created(ottla, herder, file):
    done = ottla(
        "create", file("- {name: a/b, connector.class: S}\n- {name: c, connector.class: S}\n"),
        "-c", "tasks.max=3", "--initial-state", "stopped",
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "created a/b\ncreated c\n", "")
    assert herder.configs["a/b"] == {"name": "a/b", "connector.class": "S", "tasks.max": "3"}
    assert herder.targets["c"] is TargetState.STOPPED


def test_one_that_is_refused_does_not_hinder_the_others(ottla, first, file):
    text = "- {name: first, connector.class: S}\n- {name: c, connector.class: S}\n"
    done = ottla("create", file(text))
    assert done.returncode == 1
    assert done.stdout == "created c\n"
    assert done.stderr == "ottla: first was not created: Connector first already exists\n"
    again = ottla("create", file(text), "--replace", "--json")
    assert again.returncode == 0
    assert [each["status"] for each in again.json] == ["changed", "changed"]
    assert first.configs["first"] == {"name": "first", "connector.class": "S"}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("create", "missing.yaml"), 1, "ottla: cannot read missing.yaml: No such file"),
        (("validate", "missing.yaml"), 1, "ottla: cannot read missing.yaml: No such file"),
        (("create", "x", "--initial-state", "asleep"), 2, "ottla: --initial-state asleep: write running"),
        (("restart", "first", "--task", "0", "--tasks"), 2, "ottla: --task restarts one task"),
        (("offsets", "set", "first"), 2, "ottla: say the offsets with either"),
        (("offsets", "set", "first", "t:0"), 2, "ottla: t:0: write it as TOPIC:PARTITION=OFFSET"),
        (("logs", "first", "--follow", "--json"), 2, "ottla: --follow prints lines"),
        (("list", "--url", "worker:8083"), 2, "ottla: --connect-url worker:8083: write it as http://HOST:PORT"),
        (("config", "none"), 1, "ottla: Connector none not found"),
        (("plugins", "--settings", "None"), 1, "ottla: Unknown plugin None."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_done_is_one_line(ottla, arguments, code, words):
    done = ottla(*arguments)
    assert done.returncode == code
    assert done.stderr.startswith(words)
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_validation_shows_everything_that_is_wrong_at_once(ottla, herder, file):
    bad = file("name: a\nconnector.class: ottla_file.FileSource\ntasks.max: many\n")
    done = ottla("validate", bad)
    assert done.returncode == 1
    assert "a: 2 problems" in done.stdout
    assert "tasks.max   many    Input should be a valid integer" in done.stdout
    assert "must be set, there is no default" in done.stdout
    good = ottla("validate", bad, "-c", "tasks.max=1", "-c", "topic=t")
    assert (good.returncode, good.stdout) == (0, "a: nothing is wrong with it\n")
    assert ottla("validate", bad, "--json").json[0]["error_count"] == 2
    assert not herder.configs


def test_the_list_has_a_line_for_each_connector(ottla, first):
    first.failed[TaskId("first", 1)] = "trace"
    done = ottla("list")
    *table, hindrance = done.stdout.strip().splitlines()
    header, _, row = (line.split() for line in table if line.strip())
    assert header == ["connector", "type", "state", "tasks", "running", "records/s", "lag", "worker"]
    assert row == ["first", "source", "RUNNING", "1/2", "127.0.0.1:8083"]
    assert hindrance == "first, task 1, does not work: trace"
    assert done.returncode == 1
    assert ottla("list", "--json").json == [
        {
            "connector": "first", "type": "source", "state": "RUNNING", "tasks": 2, "tasks_running": 1,
            "tasks_failed": 1, "records_per_second": None, "lag": None, "not_working": ["task 1"], "reason": "trace",
            "worker": "127.0.0.1:8083",
        }
    ]  # fmt: skip


def test_who_runs_and_waits_does_not_look_healthy(ottla, first):
    assert ottla("list").returncode == 0
    first.healths[TaskId("first", 0)] = {"state": "WAITING", "reason": "there is no file at /a.csv", "since_ms": 1}
    first.healths[TaskId("first", 1)] = {"state": "WORKING", "records_per_second": 12.0, "lag": 4}
    for command in ("list", "status"):
        done = ottla(command)
        assert done.returncode == 1
        assert ": there is no file at /a.csv\n" in done.stdout
    assert "RUNNING, waiting" in done.stdout
    task = ottla("status", "--json").json[0]["tasks"][0]
    assert (task["state"], task["health"]["state"]) == ("RUNNING", "WAITING")


def test_the_status_shows_why_a_task_has_failed_and_exits_with_1(ottla, first):
    assert ottla("status").returncode == 0
    first.failed[TaskId("first", 1)] = "ValueError: no\n  in line 1\n"
    done = ottla("status", "first")
    assert done.returncode == 1
    assert "first, task 1:\n  ValueError: no\n    in line 1\n" in done.stdout
    assert ottla("status", "--json").json[0]["tasks"][1]["state"] == "FAILED"


@pytest.mark.parametrize("command", ["list", "status"])
def test_a_connector_that_was_just_created_is_given_a_moment(ottla, first, monkeypatch, command):
    looks = 0
    told = first.connector_status

    def assigned_later(name: str) -> ConnectorStatus:
        nonlocal looks
        looks += 1
        return told(name) if looks > 2 else replace(told(name), connector=NOT_STARTED)

    monkeypatch.setattr(first, "connector_status", assigned_later)
    monkeypatch.setattr(connect_state, "LOOK_INTERVAL_S", 0.01)
    done = ottla(command)
    assert (looks, done.returncode) == (3, 0)
    assert "RUNNING" in done.stdout

    monkeypatch.setattr(connect_state, "ASSIGNED_WITHIN_S", 0.0)
    looks = -1000
    done = ottla(command)
    assert done.returncode == 1
    assert "does not work yet: it is still being started" in done.stdout


def test_the_status_shows_how_jobs_go(ottla, first):
    first.progress[TaskId("first", 0)] = {
        "spark": "4.3.0",
        "delays": {"batch": 3, "rate": 1234.56, "watermark": None, "tables": {"flights": {"lag": 7}}},
    }
    assert ottla("status", "first").stdout.endswith(
        "first, task 0:\n  spark 4.3.0\n  delays: batch 3, rate 1,234.6, watermark –\n"
        "  delays.tables.flights: lag 7\n"
    )


def test_settings_are_shown_and_changed(ottla, first):
    assert "connector.class   ottla_file.FileSource" in ottla("config", "first").stdout
    changed = ottla("config", "first", "--set", "tasks.max=4", "--unset", "topic", "--json")
    assert changed.json == {"connector.class": SOURCE["connector.class"], "name": "first", "tasks.max": "4"}
    assert first.configs["first"] == changed.json


@pytest.mark.parametrize(
    ("arguments", "restarts"),
    [
        ((), [("first", False, False)]),
        (("--tasks", "--only-failed"), [("first", True, True)]),
        (("--task", "1"), [(TaskId("first", 1),)]),
    ],
)
def test_restarts(ottla, first, arguments, restarts):
    done = ottla("restart", "first", *arguments)
    assert (done.returncode, done.stdout) == (0, "restarted first\n")
    assert first.restarts == restarts


@pytest.mark.parametrize(
    ("command", "done", "state"),
    [
        ("pause", "paused", TargetState.PAUSED),
        ("stop", "stopped", TargetState.STOPPED),
        ("resume", "resumed", TargetState.STARTED),
    ],
)
def test_pause_stop_and_resume(ottla, first, command, done, state):
    first.targets["first"] = TargetState.PAUSED
    ran = ottla(command, "first", "none")
    assert ran.returncode == 1
    assert ran.stdout == f"{done} first\n"
    assert ran.stderr == f"ottla: none was not {done}: Connector none not found\n"
    assert first.targets["first"] is state


def test_connectors_are_deleted(ottla, first):
    assert ottla("delete", "first", "--yes", "--json").json == [
        {"connector": "first", "status": "deleted", "error": None}
    ]
    assert not first.configs


def test_offsets_are_shown_set_and_reset(ottla, first, tmp_path):
    first.targets["first"] = TargetState.STOPPED
    done = ottla("offsets", "set", "first", "t:0=5", "t:1=none")
    assert done.stdout == "The offsets for this connector have been altered successfully\n"
    shown = ottla("offsets", "show", "first")
    assert '{"kafka_topic": "t", "kafka_partition": 0}   {"kafka_offset": 5}' in shown.stdout
    written = tmp_path / "offsets.json"
    written.write_text(ottla("offsets", "show", "first", "--json").stdout.replace("5", "7"))
    assert ottla("offsets", "set", "first", "--file", str(written)).returncode == 0
    assert first.stored_offsets["first"][0][1] == {"kafka_offset": 7}
    assert ottla("offsets", "reset", "first", "--yes", "--json").json["message"].startswith("The offsets")
    assert not first.stored_offsets


def test_logs_are_of_the_connector_or_a_task(ottla, first):
    assert ottla("logs", "first", "--lines", "2").stdout == "line 0\nline 1\n"
    assert (
        ottla("logs", "first", "--lines", "0").stderr
        == "it has logged nothing; what a task has logged is shown by --task\n"
    )
    document = ottla("logs", "first", "--task", "1", "--json").json
    assert document == {"connector": "first", "task": 1, "lines": ["line 0", "line 1", "line 2"]}


def test_logs_can_be_followed(ottla, first, monkeypatch):
    pages = [["a", "b"], ["a", "b", "c"], Conflict("between two workers"), ["b", "c", "d"], KeyboardInterrupt]

    async def logs(_name: str, _task: int | None, _lines: int) -> list[str]:
        page = pages.pop(0)
        if isinstance(page, Conflict):
            raise page
        return page

    def no_pause(_seconds: float) -> None:
        if pages[0] is KeyboardInterrupt:
            raise KeyboardInterrupt

    monkeypatch.setattr(first, "logs", logs)
    monkeypatch.setattr("ottla.commands.connect_logs.time.sleep", no_pause)
    done = ottla("logs", "first", "--lines", "1", "--follow")
    assert (done.returncode, done.stdout) == (130, "b\nc\nd\n")
    assert done.stderr == "ottla: between two workers\n"


def test_plugins_are_listed_with_those_that_are_broken(ottla):
    assert "No module named 'gone'" in ottla("plugins").stdout
    assert [each["type"] for each in ottla("plugins", "--connectors", "--json").json] == ["sink", "source"]
    settings = ottla("plugins", "--settings", "FileSource").stdout
    assert "batch.size   long     2000" in settings
    assert "topic        string   required" in settings


def test_a_plugin_project_is_written_where_it_is_wanted(ottla, tmp_path):
    done = ottla("new-plugin", "acme-billing", "--dir", str(tmp_path), "--json")
    assert done.returncode == 0
    assert done.json["plugin"] == "acme-billing"
    assert all((tmp_path / "acme-billing") in Path(file).parents for file in done.json["files"])
    assert any(file.endswith("pyproject.toml") for file in done.json["files"])
    again = ottla("new-plugin", "acme-billing", "--dir", str(tmp_path))
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)
    assert ottla("new-plugin", "Not a name", "--dir", str(tmp_path)).returncode == 2


def test_a_worker_that_is_down_is_passed_over(ottla, rest, first):
    down = f"http://127.0.0.1:{free_port()}"
    assert ottla("list", "--json", url=f"{down},{rest.url}/").json[0]["connector"] == "first"
    done = ottla("list", url=down)
    assert done.returncode == 1
    assert done.stderr.startswith(f"ottla: cannot reach {down} (")
    assert done.stderr.count("\n") == 1


def test_a_rebalance_is_waited_out(ottla, first, monkeypatch):
    refusals = [Conflict("The workers do not agree on who answers this; there is probably a rebalance")] * 2
    stop = first.set_target_state

    async def rebalancing(name: str, state: TargetState) -> None:
        if refusals:
            raise refusals.pop()
        await stop(name, state)

    monkeypatch.setattr(first, "set_target_state", rebalancing)
    monkeypatch.setattr(worker_client, "REBALANCE_RETRY_S", 0.01)
    assert ottla("stop", "first").returncode == 0
    assert first.targets["first"] is TargetState.STOPPED


def test_what_is_no_worker_is_said(ottla, rest):
    done = ottla("list", url=f"{rest.url}/docs?")
    assert done.returncode == 1
    assert "is no Connect worker" in done.stderr
    assert done.stderr.count("\n") == 1
