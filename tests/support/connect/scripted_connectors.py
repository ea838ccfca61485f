"""Processes of connectors and tasks that do as their settings say, without any plugin; for tests of the herder.

A connector has `tasks.max` tasks, whose settings carry its `behaviour` on. `behaviour` is one of ``run``, ``fail``
(with an ordinary error), ``fail-fatally``, ``crash`` (the process ends by itself), ``commit`` (a task that stores an
offset with every lease that it gets) and ``commit-late`` (a task that is told to stop stores an offset when the file
``release`` is there, and ends).

Whoever changes offsets in a target writes down its process id and its leases in the file ``told``, and never answers.
"""

import os
import socket
import time
from pathlib import Path

from ottla_connect.processes.messages import (
    LENGTH_PREFIX_SIZE,
    ChangeOffsets,
    CheckOffsets,
    CommitOffsets,
    DescribeConfig,
    Failed,
    FromProcess,
    Lease,
    ListPlugins,
    OffsetsChecked,
    OffsetsCommitted,
    Outlook,
    Paused,
    PluginDescription,
    PluginsListed,
    RunConnector,
    Running,
    RunTask,
    SetPaused,
    Stop,
    Stopped,
    TaskConfigs,
    ToProcess,
    Validate,
    Validated,
    decode_to_process,
    encode,
)

ENTRY = "tests.support.connect.scripted_connectors:run"
CLASS = "scripted.Source"
CRASH_CODE = 7
LISTED = PluginsListed(
    plugins=[PluginDescription(class_name=CLASS, type="source", version="3.2.1", aliases=["Source"])]
)


def run(channel: socket.socket) -> int:
    """Does what the first message says."""
    match purpose := _receive(channel):
        case ListPlugins():
            _send(channel, LISTED)
        case Validate():
            _send(channel, Validated(infos=_infos(purpose.settings)))
        case RunConnector():
            return _run_connector(channel, purpose)
        case RunTask():
            return _run_task(channel, purpose)
        case CheckOffsets():
            _send(channel, OffsetsChecked(problems=[], offsets=purpose.offsets))
        case ChangeOffsets():
            _tell_leases(channel, Path(purpose.settings["told"]))
        case DescribeConfig() | _:
            raise AssertionError(f"no script for {purpose}")
    return 0


def _infos(settings: dict[str, str]) -> dict[str, object]:
    faults = ["is no number"] if not settings.get("tasks.max", "1").isdecimal() else []
    value = {"name": "tasks.max", "value": settings.get("tasks.max"), "errors": faults}
    return {"name": CLASS, "error_count": len(faults), "groups": [], "configs": [{"definition": {}, "value": value}]}


def _run_connector(channel: socket.socket, purpose: RunConnector) -> int:
    _send(channel, Running(version="3.2.1"))
    count = int(purpose.settings.get("tasks.max", "1"))
    behaviour = purpose.settings.get("behaviour", "run")
    release = purpose.settings.get("release", "")
    own = ({"behaviour": behaviour, "release": release, "number": str(number)} for number in range(count))
    _send(channel, TaskConfigs(configs=list(own)))
    return _serve(channel)


def _run_task(channel: socket.socket, purpose: RunTask) -> int:
    behaviour = purpose.settings["behaviour"]
    if behaviour == "crash":
        print("about to crash", flush=True)
        return CRASH_CODE
    if behaviour in ("fail", "fail-fatally"):
        outlook = Outlook.FATAL if behaviour == "fail-fatally" else Outlook.OPEN
        _send(channel, Failed(reason="it broke", trace="Traceback: it broke", outlook=outlook))
        return 1
    _send(channel, Paused() if purpose.paused else Running(version="3.2.1"))
    if behaviour == "commit-late":
        return _commit_late(channel, Path(purpose.settings["release"]))
    return _serve(channel, commits=behaviour == "commit")


def _commit_late(channel: socket.socket, release: Path) -> int:
    while not isinstance(_receive(channel), Stop | None):
        pass
    while not release.exists():
        time.sleep(0.01)  # between two looks at the file
    _send(channel, CommitOffsets(request=1, offsets=[({"file": "a"}, {"position": 7})]))
    _send(channel, Stopped())
    return 0


def _tell_leases(channel: socket.socket, told: Path) -> None:
    with told.open("w", buffering=1) as lines:
        print(os.getpid(), file=lines)
        while (message := _receive(channel)) is not None:
            if isinstance(message, Lease):
                print(message.until_s, file=lines)


def _serve(channel: socket.socket, *, commits: bool = False) -> int:
    while (message := _receive(channel)) is not None:
        match message:
            case Stop():
                _send(channel, Stopped())
                return 0
            case SetPaused():
                _send(channel, Paused() if message.paused else Running())
            case Lease() if commits:
                _send(channel, CommitOffsets(request=1, offsets=[({"file": "a"}, {"position": os.getpid()})]))
            case OffsetsCommitted():
                print("committed" if message.error is None else f"refused: {message.error}", flush=True)
            case _:
                print(message, flush=True)
    return 1


def _send(channel: socket.socket, message: FromProcess) -> None:
    channel.sendall(encode(message))


def _receive(channel: socket.socket) -> ToProcess | None:
    prefix = _read(channel, LENGTH_PREFIX_SIZE)
    return decode_to_process(_read(channel, int.from_bytes(prefix, "big"))) if prefix else None


def _read(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = channel.recv(size - len(data))
        if not piece:
            return b""
        data += piece
    return data
