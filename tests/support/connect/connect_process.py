"""A process of a connector or task, as a worker would run it, and a stand-in for that worker.

The stand-in keeps source offsets in memory, gives a long lease unless it is told not to, and collects what the
process says. Processes are forked from a server that has imported the runtime, as a worker's are; what they write to
their standard output and error goes to a file.
"""

import contextlib
import json
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

from ottla_connect.processes.frames import FrameReader
from ottla_connect.processes.messages import (
    CheckTransactions,
    CommitOffsets,
    Lease,
    Message,
    OffsetKeysRead,
    OffsetsCommitted,
    OffsetsRead,
    ReadOffsetKeys,
    ReadOffsets,
    RunTask,
    Stop,
    TransactionCheck,
    TransactionsChecked,
    decode_from_process,
    encode,
)
from ottla_connect.state.offset_records import key_of, source_partition
from ottla_connect.task.main import run
from ottla_core.clock import boot_time_s
from tests.support.connect.connect_plugin_path import WORKING_PLUGINS
from tests.support.eventually import eventually

MessageT = TypeVar("MessageT")

LEASE_S = 3600.0
END_DEADLINE_S = 20.0
CRASHED = 1

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["ottla_connect.task.main"])


def _become(connection: socket.socket, output: Path, search_path: list[str]) -> NoReturn:
    """Run the purpose that comes over the connection, in a process that was forked for it."""
    code = CRASHED
    os.setsid()
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.path[:0] = search_path
        code = run(connection)
    finally:
        os._exit(code)


def offset_key(partition: Mapping[str, Any]) -> str:
    return json.dumps(partition, sort_keys=True)


class ConnectProcess:
    """Runs a purpose in a process.

    Attributes:
        said: all messages of the process, in order.
        offsets: committed source offsets by `offset_key`.
        leased_until_s: when the last lease ends, of CLOCK_BOOTTIME.
        refuse_commits: why commits of offsets are refused; None if they are stored.
        refuse_transactions: by check, why it fails.
        answers_checks: whether checks are answered at all.
    """

    def __init__(
        self,
        purpose: Message,
        *,
        output: Path,
        lease: bool = True,
        offsets: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.said: list[Any] = []
        self.offsets: dict[str, Mapping[str, Any]] = dict(offsets or {})
        self.leased_until_s = 0.0
        self.refuse_commits: str | None = None
        self.refuse_transactions: dict[TransactionCheck, str] = {}
        self.answers_checks = True
        self._connector = purpose.connector if isinstance(purpose, RunTask) else ""
        self._output = output
        self._ours, theirs = socket.socketpair()
        output.touch()
        self.process = _context.Process(target=_become, args=(theirs, output, [str(WORKING_PLUGINS)]), daemon=True)
        self.process.start()
        theirs.close()
        self.send(purpose)
        if lease:
            self.lease()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, message: Message) -> None:
        self._ours.sendall(encode(message))

    def lease(self, seconds: float = LEASE_S) -> None:
        self.leased_until_s = boot_time_s() + seconds
        self.send(Lease(until_s=self.leased_until_s))

    def all(self, kind: type[MessageT]) -> list[MessageT]:
        return [each for each in self.said if isinstance(each, kind)]

    def until(
        self, kind: type[MessageT], condition: Callable[[MessageT], bool] = lambda _: True, *, count: int = 1
    ) -> MessageT:
        """Wait for the message of this kind and number that meets the condition."""

        def found() -> list[MessageT]:
            return [each for each in self.all(kind) if condition(each)][count - 1 : count]

        try:
            return eventually(found, f"the process says {kind.__name__}")[0]
        except AssertionError as error:
            error.add_note(f"it said {self.said}, and wrote: {self.log}")
            raise

    def stop(self) -> int:
        """Ask it to stop, and return its exit code."""
        self.send(Stop())
        return self.wait()

    def wait(self) -> int:
        self.process.join(END_DEADLINE_S)
        assert self.process.exitcode is not None, f"the process goes on: {self.log}"
        self._reader.join(END_DEADLINE_S)  # what it has said last may still be on its way
        return self.process.exitcode

    @property
    def log(self) -> str:
        return self._output.read_text(errors="replace")

    @property
    def log_records(self) -> list[dict[str, str]]:
        return [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]

    def close(self) -> None:
        pid = self.process.pid
        assert pid is not None, "the process was started"
        self.process.kill()
        self.process.join()
        with contextlib.suppress(ProcessLookupError):  # as a launcher does: with all that the process has started
            os.killpg(pid, signal.SIGKILL)
        self._reader.join(END_DEADLINE_S)
        self._ours.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self) -> None:
        frames = FrameReader()
        while True:
            try:
                data = self._ours.recv(65536)
            except OSError:
                return
            if not data:
                return
            for text in frames.feed(data):
                message = decode_from_process(text)
                self._answer(message)
                self.said.append(message)

    def _answer(self, message: Any) -> None:
        if isinstance(message, ReadOffsets):
            found: list[Any] = [self.offsets.get(offset_key(each)) for each in message.partitions]
            self.send(OffsetsRead(request=message.request, offsets=found))
        elif isinstance(message, CheckTransactions) and self.answers_checks:
            error = self.refuse_transactions.get(message.check)
            self.send(TransactionsChecked(request=message.request, error=error))
        elif isinstance(message, ReadOffsetKeys):
            keys = [[key_of(source_partition(self._connector, each)).decode()] for each in message.partitions]
            self.send(OffsetKeysRead(request=message.request, keys=keys))
        elif isinstance(message, CommitOffsets):
            if self.refuse_commits is None:
                self.offsets.update({offset_key(partition): offset for partition, offset in message.offsets})
            self.send(OffsetsCommitted(request=message.request, error=self.refuse_commits))
