"""`ottla up --detach`: the supervisor in a process and session of its own.

The command and the supervisor share a socket until the cluster is ready. Over it go the launch options, then one JSON
line per change of the report, and at the end of a failed start its message. If the command dies or is interrupted
first, the supervisor reads the end of the socket and stops everything; once ready it lets the socket go.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ottla.local.cluster_directory import ClusterDirectory, UnusableDirectory
from ottla.local.launch import run_cluster
from ottla.local.launch_options import LaunchOptions
from ottla.local.settings import Setting
from ottla.local.supervisor import StopRequested, StopSignal
from ottla_operations.errors import OperationError
from ottla_operations.local_clusters.cluster_report import ClusterReport

END_DEADLINE_S = 60.0


def start_detached(launch_options: LaunchOptions, on_change: Callable[[ClusterReport], None]) -> ClusterReport:
    """Start a supervisor process and return its report once everything is ready.

    Raises:
        OperationError: the cluster did not start; nothing is left running.
    """
    directory = ClusterDirectory(launch_options.directory)
    try:
        directory.create()
    except UnusableDirectory as error:
        raise OperationError(str(error)) from None
    ours, theirs = socket.socketpair()
    with ours, directory.supervisor_log.open("ab") as log:
        with theirs:
            supervisor = subprocess.Popen(
                [sys.executable, "-m", "ottla.local.detached", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            ours.sendall(_launch_options_line(launch_options))
            report = _follow(ours, on_change)
        except BaseException:
            ours.shutdown(socket.SHUT_RDWR)
            supervisor.wait(END_DEADLINE_S)
            raise
        if report is None:
            supervisor.wait(END_DEADLINE_S)
            raise OperationError(
                f"the supervisor ended without a word (exit code {supervisor.returncode}); "
                f"its log is {directory.supervisor_log}"
            )
        return report


def _follow(connection: socket.socket, on_change: Callable[[ClusterReport], None]) -> ClusterReport | None:
    with connection.makefile(encoding="utf-8") as lines:
        for line in lines:
            message: dict[str, Any] = json.loads(line)
            if "error" in message:
                raise OperationError(message["error"], exit_code=message["exit_code"])
            report = ClusterReport.from_json(line)
            on_change(report)
            if report.state == "running":
                return report
    return None


def _launch_options_line(launch_options: LaunchOptions) -> bytes:
    return (json.dumps({**asdict(launch_options), "directory": str(launch_options.directory)}) + "\n").encode()


def _read_launch_options(text: str) -> LaunchOptions:
    document: dict[str, Any] = json.loads(text)
    document["directory"] = Path(document["directory"])
    document["settings"] = tuple(Setting(**each) for each in document["settings"])
    for key in ("etcd_endpoints", "racks", "unset"):
        if document[key] is not None:
            document[key] = tuple(document[key])
    return LaunchOptions(**document)


class _Tether:
    """The supervisor's end of the socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._attached = True
        self._loop: asyncio.AbstractEventLoop | None = None

    def read_line(self) -> str:
        """Return the first line, which the command sends at once."""
        with self._connection.makefile("rb", buffering=0) as stream:
            return bytes(stream.readline()).decode()

    def stop_when_cut(self, loop: asyncio.AbstractEventLoop, stop: StopSignal) -> None:
        """Ask for the end of the cluster if the command goes away before it is ready."""
        self._loop = loop

        def on_readable() -> None:
            loop.remove_reader(self._connection)
            stop.request()

        loop.add_reader(self._connection, on_readable)

    def tell(self, document: dict[str, Any]) -> None:
        """Send one message, as long as somebody listens."""
        if not self._attached:
            return
        try:
            self._connection.sendall((json.dumps(document) + "\n").encode())
        except OSError:
            self._attached = False  # the reader callback sees the same end and stops the cluster

    def tell_change(self, report: ClusterReport) -> None:
        """Send a report; the first that says ``running`` is the last one."""
        self.tell(report.to_document())
        if report.state == "running" and self._attached:
            self._attached = False
            if self._loop is not None:
                self._loop.remove_reader(self._connection)
            self._connection.close()


def main() -> int:
    """Run a supervisor for the command at the other end of the socket."""
    tether = _Tether(socket.socket(fileno=int(sys.argv[1])))
    launch_options = _read_launch_options(tether.read_line())
    os.chdir("/")  # the directory the command was typed in is not ours to hold
    try:
        run_cluster(launch_options, tether.tell_change, console=None, stop_on=tether.stop_when_cut)
    except OperationError as error:
        tether.tell({"error": str(error), "exit_code": error.exit_code})
        return error.exit_code
    except StopRequested:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
