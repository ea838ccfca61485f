"""A reader who types what a document says, in a fresh directory with the repository's files in it.

The commands use the ports that a reader has, 9092, 8083 and 8081, and folders such as /tmp/flights. As root the
reader gets namespaces with a network and with such folders, so that tests side by side do not meet there; elsewhere
the ports have to be free.
"""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Self

from tests.documents.documents import ROOT, Command, WrittenFile
from tests.faults.network import unavailable_reason
from tests.support.eventually import eventually
from tests.support.reference.java_class_archive import options_for_spark
from tests.support.requirements import lack

PORTS = (9092, 8083, 8081)
FOLDERS = ("/tmp/flights", "/tmp/flights-cluster", "/tmp/three")
IN_THE_CLONE = (".venv", "docs", "examples", "Makefile", "README.md")
COMMAND_DEADLINE_S = 600.0
AGAIN_AFTER_S = 0.5
GONE_WITHIN_S = 60.0


class Reader:
    """Types commands and writes files.

    Attributes:
        directory: where the reader is: a clone, as far as documents go.

    Args:
        directory: likewise; it is made.
        inside: what begins a command, see `own_namespaces`.
        python_path: packages that are installed for this reader alone.
    """

    def __init__(self, directory: Path, inside: Sequence[str], python_path: Path | None = None):
        self.directory = directory
        self._inside = [*inside]
        self._home = directory.parent / f"{directory.name}-home"
        directory.mkdir()
        self._home.mkdir()
        for name in IN_THE_CLONE:
            (directory / name).symlink_to(ROOT / name)
        settings = {"HOME": str(self._home), "JDK_JAVA_OPTIONS": options_for_spark(), "TERM": "dumb"}
        settings["SPARK_WORKER_DIR"] = str(self._home / "spark")  # else within the installed package
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OTTLA_", "XDG_"))}
        if python_path is not None:
            settings["PYTHONPATH"] = str(python_path)
        self._environment = {**inherited, **settings}
        self._exports: list[str] = []
        self._left_running: list[subprocess.Popen[str]] = []

    def write(self, file: WrittenFile) -> None:
        """Writes a file, as the document shows it."""
        (self.directory / file.name).write_text(file.text)

    def type(self, command: Command, *, until: str = "", within_s: float = COMMAND_DEADLINE_S) -> str:
        """Runs a command and returns what it prints.

        Args:
            command: as the document has it.
            until: a pattern in what it has to print. Until then it is typed again, as by a reader who was too early.
            within_s: for all attempts.
        """
        if command.line.startswith(("export ", ". ")):
            self._exports.append(command.line)
            return ""
        deadline_s = time.monotonic() + within_s
        while True:
            done = self._run(command.line, max(deadline_s - time.monotonic(), 1.0))
            if done.returncode == 0 and re.search(until, done.stdout):
                return done.stdout
            if time.monotonic() >= deadline_s or not until:
                raise AssertionError(f"{command.line}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
            time.sleep(AGAIN_AFTER_S)  # between two attempts; the deadline ends them

    def follow(self, command: Command, *, lines: int, within_s: float = COMMAND_DEADLINE_S) -> list[str]:
        """Runs a command that goes on for ever, ends it with Ctrl-C after some lines, and returns these."""
        printed = self._home / "followed"
        with printed.open("w") as output:
            process = self._start(command.line, stdout=output, stderr=subprocess.DEVNULL)
        try:
            eventually(
                lambda: printed.read_text().count("\n") >= lines, f"{command.line}: {lines} lines", within_s=within_s
            )
            return printed.read_text().splitlines()
        finally:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(GONE_WITHIN_S)

    def leave_running(self, command: Command, *, until: str, within_s: float = COMMAND_DEADLINE_S) -> None:
        """Runs a command in another terminal, and goes on when it has printed or logged something."""
        printed = self._home / f"printed-{len(self._left_running)}"
        with printed.open("w") as output:
            process = self._start(command.line, stdout=output, stderr=subprocess.STDOUT)
        self._left_running.append(process)
        eventually(lambda: re.search(until, printed.read_text()), f"{command.line} shows {until}", within_s=within_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._run(".venv/bin/ottla down", GONE_WITHIN_S)
        for process in reversed(self._left_running):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(GONE_WITHIN_S)
        shutil.rmtree(self._home, ignore_errors=True)

    def _run(self, line: str, timeout_s: float) -> "subprocess.CompletedProcess[str]":
        process = self._start(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            output, errors = process.communicate()
            raise AssertionError(f"{line}: nothing after {timeout_s:.0f} s\n{output}\n{errors}") from None
        return subprocess.CompletedProcess(line, process.returncode, output, errors)

    def _start(self, line: str, *, stdout: int | IO[str], stderr: int) -> "subprocess.Popen[str]":
        script = "\n".join([f"cd {shlex.quote(str(self.directory))}", *self._exports, line])
        return subprocess.Popen(
            [*self._inside, "bash", "-c", script],
            env=self._environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
        )  # fmt: skip


@contextmanager
def own_namespaces() -> Iterator[list[str]]:
    """What begins a command that runs in namespaces of its own; nothing if there are none to be had."""
    if unavailable_reason() is not None:
        _require_ports()
        yield []
        return
    mounts = " && ".join(f"mkdir -p {folder} && mount -t tmpfs none {folder}" for folder in FOLDERS)
    prepare = f"ip link set lo up && {mounts} && echo ready && exec sleep infinity"
    holder = subprocess.Popen(["unshare", "--net", "--mount", "sh", "-c", prepare], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        yield ["nsenter", f"--target={holder.pid}", "--net", "--mount"]
    finally:
        holder.kill()
        holder.wait()


@contextmanager
def schema_registry(inside: Sequence[str]) -> Iterator[None]:
    """A schema registry at port 8081, beside the reader."""
    program = [sys.executable, str(ROOT / "tests/support/servers/schema_registry_server.py"), "8081"]
    server = subprocess.Popen([*inside, *program], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield
    finally:
        server.kill()
        server.wait()


def _require_ports() -> None:
    for port in PORTS:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                lack(f"port {port}, which documents use, is taken")
