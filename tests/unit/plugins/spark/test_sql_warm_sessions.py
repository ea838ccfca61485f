"""Which commands share a warm session, and how one is talked to."""

import os
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ottla_spark.sql import warm_sessions
from ottla_spark.sql.invocation import Connections
from ottla_spark.sql.sql_errors import SqlProblem
from ottla_spark.sql.warm_sessions import Place, documents, place_of, state_folder

CONNECTIONS = Connections(
    bootstrap="127.0.0.1:9092",
    client_settings={"sasl.password": "hidden-word"},
    connect_url="http://127.0.0.1:8083",
    spark_settings={"spark.master": "local[*]"},
)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path), "PATH": "/bin", "JAVA_HOME": "/jdk"}


def key(connections: Connections, environment: Mapping[str, str]) -> str:
    return place_of(connections, environment).key


def test_a_command_gets_another_session_if_an_answer_could_differ(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = key(CONNECTIONS, environment)
    assert key(CONNECTIONS, environment) == own
    assert key(CONNECTIONS, {**environment, "COLUMNS": "80", "TERM": "xterm", "SSH_TTY": "/dev/pts/1"}) == own
    others = {
        key(replace(CONNECTIONS, bootstrap="other:9092"), environment),
        key(replace(CONNECTIONS, client_settings={}), environment),
        key(replace(CONNECTIONS, connect_url="http://other:8083"), environment),
        key(replace(CONNECTIONS, spark_settings={"spark.master": "local[1]"}), environment),
        key(CONNECTIONS, {**environment, "JAVA_HOME": "/other"}),
        key(CONNECTIONS, {**environment, "AWS_PROFILE": "other"}),
    }
    monkeypatch.setattr(warm_sessions, "_version", lambda: ["another"])
    others.add(key(CONNECTIONS, environment))
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    others.add(key(CONNECTIONS, environment))
    assert len(others | {own}) == 9


def test_nobody_else_may_enter_its_folder_and_connect(environment: dict[str, str]) -> None:
    place = place_of(CONNECTIONS, environment)
    assert place.connected() is None
    with place.listener():
        assert place.folder.stat().st_mode & 0o777 == 0o700
        assert place.file(".sock").stat().st_mode & 0o777 == 0o600
        connection = place.connected()
        assert connection is not None
        connection.close()
    assert place.connected() is None


def test_a_folder_of_somebody_else_is_not_used(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    state_folder(environment)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(SqlProblem, match="belongs to somebody else"):
        state_folder(environment)


def test_a_socket_in_a_long_folder_can_be_reached(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    place = Place(folder, "0123456789abcdef")
    with place.listener():
        connection = place.connected()
        assert connection is not None
        connection.close()


def test_documents_are_read_one_by_one_however_they_come() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b'{"started": true}\n{"ex')
        held = bytearray()
        assert next(documents(ours, held)) == {"started": True}
        theirs.sendall(b'it": 130}\n')
        assert next(documents(ours, held)) == {"exit": 130}
        theirs.close()
        assert list(documents(ours, held)) == []
