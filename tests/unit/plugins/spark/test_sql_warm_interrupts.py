"""Ctrl-C for commands that a warm session has not begun yet."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from ottla_spark.sql.invocation import Connections
from ottla_spark.sql.scripts import EXIT_INTERRUPTED
from ottla_spark.sql.warm_driver import Command, WarmDriver
from ottla_spark.sql.warm_sessions import INTERRUPT, Place, _begun, _exit_code

CONNECTIONS = Connections(bootstrap="", client_settings={}, connect_url="http://127.0.0.1:1", spark_settings={})


@pytest.fixture
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Return the command's end and the session's."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_one_that_comes_before_anything_can_be_interrupted_counts(
    tmp_path: Path, connection: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = connection
    driver = WarmDriver(Place(tmp_path, "key"), MagicMock(), CONNECTIONS, MagicMock(has_ended=False), MagicMock())
    was_sent = threading.Event()
    carried_out: list[object] = []
    monkeypatch.setattr(
        os, "kill", lambda _pid, _number: was_sent.set()
    )  # the main thread hears of it now, and forgets
    monkeypatch.setattr(driver, "_exit_code", lambda request: carried_out.append(request) or 0)
    command = Command(theirs, {}, [os.open(os.devnull, os.O_RDWR) for _ in range(3)])
    ours.sendall(INTERRUPT)
    handed_on = threading.Thread(target=driver._hand_on, args=(command,))
    handed_on.start()
    assert was_sent.wait(30)
    assert driver._carry_out(command) == EXIT_INTERRUPTED
    assert carried_out == []
    command.has_ended.set()
    command.is_answered.set()
    ours.shutdown(socket.SHUT_WR)
    handed_on.join()


def test_a_command_that_was_interrupted_is_not_carried_out_elsewhere() -> None:
    connection = MagicMock()
    connection.recv.side_effect = [KeyboardInterrupt, b'{"busy": true}\n']
    with pytest.raises(KeyboardInterrupt):
        _exit_code(connection)
    connection.sendall.assert_called_once_with(INTERRUPT)


def test_a_session_that_cannot_be_begun_is_none(tmp_path: Path) -> None:
    assert _begun(Place(tmp_path / "gone", "key"), CONNECTIONS) is None
