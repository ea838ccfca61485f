"""The launcher: a small process of one thread from which others are forked, such as those of connectors and tasks.

It has imported what they need and used none of it: it has made no Kafka client and no channel of gRPC, so that a fork
is safe, takes milliseconds, and shares the imports' memory. Its owner, a Connect worker or a supervisor, starts it as
`python -m ottla_core.processes.launcher OWNER_PID FD PREPARE ENTRY`. PREPARE and ENTRY are MODULE:FUNCTION: the one
does the imports, the other runs in every process that is forked. Over the socket FD the owner says what to start and
to kill (`launcher_protocol.py`); the launcher reports how processes end.

Nothing outlives the owner: the launcher asks the kernel for SIGKILL at the owner's death, its processes for SIGKILL
at the launcher's. Where the system cannot do that (macOS), the launcher ends its processes when its socket closes.
"""

import ctypes
import faulthandler
import gc
import importlib
import io
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from ottla_core.processes.launcher_protocol import (
    NAME_BYTES_MAX,
    REQUEST_SIZE,
    LauncherEvent,
    LauncherEventKind,
    Request,
    RequestKind,
)

Entry = Callable[[socket.socket], int]

DESCRIPTORS_PER_PROCESS = 2
CHANNEL_FD = 3
WAKEUP_READ_SIZE = 4096
EXIT_CRASHED = 1

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


class Launcher:
    """Forks processes, kills them and reports their ends."""

    def __init__(self, control: socket.socket, entry: Entry) -> None:
        self._control = control
        self._entry = entry
        self._pid = os.getpid()
        self._numbers: dict[int, int] = {}
        self._pids: dict[int, int] = {}

    def serve(self) -> None:
        """Do what the owner asks until it closes the socket, then kill what is left."""
        wakeup_read, wakeup_write = os.pipe()
        for each in (wakeup_read, wakeup_write):
            os.set_blocking(each, False)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        poll = select.poll()  # holds no descriptor that a fork would inherit
        poll.register(self._control, select.POLLIN)
        poll.register(wakeup_read, select.POLLIN)
        self._report(LauncherEvent(LauncherEventKind.READY))
        owner_is_there = True
        while owner_is_there:
            ready = {fd for fd, _ in poll.poll()}
            if wakeup_read in ready:
                os.read(wakeup_read, WAKEUP_READ_SIZE)
                self._reap()
            if self._control.fileno() in ready:
                owner_is_there = self._serve_request()
        for pid in self._numbers:
            _kill_all_of(pid)

    def _serve_request(self) -> bool:
        """Do one thing for the owner; returns whether it is still there."""
        record, descriptors = b"", list[int]()
        while len(record) < REQUEST_SIZE:
            try:
                part, fds, _, _ = socket.recv_fds(self._control, REQUEST_SIZE - len(record), DESCRIPTORS_PER_PROCESS)
            except ConnectionError:
                return False
            if not part:
                return False
            record += part
            descriptors += fds
        request = Request.decode(record)
        if request.kind is RequestKind.START:
            self._start(request, *descriptors)
        elif (pid := self._pids.get(request.number)) is not None:
            _kill_all_of(pid)
        return True

    def _start(self, request: Request, channel_fd: int, output_fd: int) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            self._report(LauncherEvent(LauncherEventKind.NOT_STARTED, request.number, value=error.errno or 0))
        else:
            if pid == 0:
                self._become(request.name, channel_fd, output_fd)
            self._numbers[pid] = request.number
            self._pids[request.number] = pid
            self._report(LauncherEvent(LauncherEventKind.STARTED, request.number, pid))
        finally:
            os.close(channel_fd)
            os.close(output_fd)

    def _become(self, name: str, channel_fd: int, output_fd: int) -> NoReturn:
        """Run the entry in this freshly forked process, and end with its exit code."""
        code = EXIT_CRASHED
        try:
            die_with_parent(self._pid)
            self._control.detach()  # its descriptor is closed below, and must not be again by the object's end
            _prepare_process(name, channel_fd, output_fd)
            code = self._entry(socket.socket(fileno=CHANNEL_FD))
        except BaseException:  # noqa: BLE001 - whatever it is, this process must not go on as a second launcher
            traceback.print_exc()
        finally:
            _flush_output()
            os._exit(code)

    def _reap(self) -> None:
        """Report all processes that have ended.

        Whatever they have started themselves goes too: it is in their process group. Also reaps what was adopted.
        """
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                if (number := self._numbers.pop(pid, None)) is None:
                    continue
                del self._pids[number]
                _kill_group(pid)
                code = os.waitstatus_to_exitcode(status)
                kind = LauncherEventKind.SIGNALLED if code < 0 else LauncherEventKind.EXITED
                self._report(LauncherEvent(kind, number, pid, abs(code)))

    def _report(self, report: LauncherEvent) -> None:
        with suppress(ConnectionError):  # the owner has gone, which the next look at the socket shows
            self._control.sendall(report.encode())


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when the thread that started it ends; end now if it has already.

    Not on systems without this; there a closed socket says it.
    """
    if sys.platform == "linux":
        _prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent_pid:
        os._exit(EXIT_CRASHED)


def _prepare_process(name: str, channel_fd: int, output_fd: int) -> None:
    """Cut all ties to the launcher, and put descriptors where the entry expects them."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    for each in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output_fd, 1)
    os.dup2(output_fd, 2)
    if channel_fd != CHANNEL_FD:
        os.dup2(channel_fd, CHANNEL_FD)
    os.set_inheritable(CHANNEL_FD, False)  # a program that a plugin starts has no use for it
    os.closerange(CHANNEL_FD + 1, max(map(int, os.listdir("/dev/fd"))) + 1)  # noqa: PTH208 - names, not paths
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    faulthandler.enable(file=2)
    if sys.platform == "linux":
        _prctl(PR_SET_NAME, name.encode()[:NAME_BYTES_MAX])


def _prctl(option: int, value: int | bytes) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")


def _kill_all_of(pid: int) -> None:
    """Kill a process that was not reaped yet, and its process group, which it may not have made yet."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    _kill_group(pid)


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads any more, or the plugin has closed it
            stream.flush()


def main() -> None:
    """Do the imports, and serve the owner that started this process."""
    owner_pid, control_fd, prepare_name, entry_name = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    die_with_parent(owner_pid)
    if sys.platform == "linux":
        _prctl(PR_SET_CHILD_SUBREAPER, 1)  # what its processes leave behind is reaped here, also in a container
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _function(prepare_name)()
    entry: Entry = _function(entry_name)
    assert threading.active_count() == 1, "a fork copies no threads, so an import must not have started one"
    gc.collect()
    gc.freeze()  # a collection in a forked process would write to, and so copy, every page of these objects
    Launcher(socket.socket(fileno=control_fd), entry).serve()


def _function(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


if __name__ == "__main__":
    main()
