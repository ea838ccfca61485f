"""Completion offers what it knows, and is silent about what it does not."""

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla import completion
from tests.support.clusters.ottla_cluster import ottla_command
from tests.support.free_ports import free_port

RUN_DEADLINE_S = 60

Complete = Callable[..., list[str]]


@pytest.fixture
def complete(tmp_path: Path) -> Complete:
    """Returns what bash offers for a line."""

    def asked(line: str, **variables: str) -> list[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}
        wanted = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_OTTLA_COMPLETE": "complete_bash"}
        done = subprocess.run(
            [ottla_command()], capture_output=True, text=True, check=True, timeout=RUN_DEADLINE_S,
            env={**kept, "XDG_CONFIG_HOME": str(tmp_path), **wanted, **variables},
        )  # fmt: skip
        assert done.stderr == ""
        return done.stdout.split()

    return asked


@pytest.fixture
def mute() -> Iterator[str]:
    """An address that accepts connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_commands_and_profiles_are_offered(complete, tmp_path):
    (tmp_path / "ottla").mkdir()
    (tmp_path / "ottla" / "profiles.json").write_text('{"profiles": {"prod": {}, "pre": {}, "lab": {}}}')
    assert complete("ottla prof") == ["profile"]
    assert complete("ottla profile use p") == ["pre", "prod"]


def test_processes_and_roles_with_logs_are_offered(complete, tmp_path):
    (tmp_path / "logs").mkdir()
    for name in ("broker-1", "broker-2", "supervisor"):
        (tmp_path / "logs" / f"{name}.log").touch()
    assert complete("ottla logs b", OTTLA_DIR=str(tmp_path)) == ["broker", "broker-1", "broker-2"]


@pytest.mark.parametrize("line", ["ottla topic describe ", "ottla group describe g", "ottla connect status "])
def test_nothing_is_offered_and_nothing_said_where_nobody_answers(complete, line, mute):
    for address in (f"127.0.0.1:{free_port()}", mute):
        urls = {"OTTLA_BOOTSTRAP": address, "OTTLA_CONNECT_URL": f"http://{address}"}
        assert complete(line, **urls) == []
    assert complete(line, OTTLA_BOOTSTRAP="no address", OTTLA_CONNECT_URL="nonsense") == []


def test_an_answer_that_takes_longer_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(completion, "WITHIN_S", 0.05)
    answered = threading.Event()

    def ask() -> list[str]:
        answered.wait(RUN_DEADLINE_S)
        return ["late"]

    try:
        assert completion.in_time(ask, "") == []
    finally:
        answered.set()
    assert completion.in_time(lambda: ["b", "ab", "a"], "a") == ["a", "ab"]


def test_a_profile_that_is_damaged_is_not_mentioned(complete, tmp_path):
    (tmp_path / "ottla").mkdir()
    (tmp_path / "ottla" / "profiles.json").write_text("{")
    assert complete("ottla topic describe ") == []
