"""A child process with a log file that is always ended, by its own process id.

Stopping sends SIGTERM and waits; a process that does not go in time is killed and reported, because a clean stop
is part of what is tested. A child also gets SIGKILL from the kernel when the test run itself dies, so that
nothing is left behind.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.local import tied_exec

STOP_DEADLINE_S = 30.0
LOG_TAIL_LINES = 40


class ChildDied(AssertionError):
    """The process ended while it was needed; the message ends with the tail of its log."""


class ChildProcess:
    """One started program, its log file and its end.

    Attributes:
        name: for messages and for the log file's name.
        log: standard output and standard error.
    """

    def __init__(self, name: str, command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None):
        self.name = name
        self.command = list(command)
        self.log = log
        self._env = {**os.environ, **(env or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    def start(self) -> None:
        """Starts it; the log is appended to, so that it tells the story of every start."""
        assert self._process is None, f"{self.name} is already running"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        program = shutil.which(self.command[0]) or self.command[0]
        # Tied to us by a script and not by a preexec_fn, which would run Python in a fork of gRPC's threads.
        tie = [sys.executable, "-I", "-S", tied_exec.__file__, str(os.getpid())]
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [*tie, program, *self.command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self._env,
            )

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def check_running(self) -> None:
        """Raises ChildDied if it has ended."""
        if not self.is_running():
            code = None if self._process is None else self._process.returncode
            raise ChildDied(f"{self.name} ended with code {code}; its log {self.log} ends:\n{self.log_tail()}")

    def restart_after(self, *signals: signal.Signals) -> bool:
        """Starts it again if one of these signals has ended it; returns whether that was so."""
        if self._process is None or self._process.poll() not in {-each for each in signals}:
            return False
        self._process = None
        self.start()
        return True

    def kill(self) -> None:
        """SIGKILL: what a crash looks like."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """A clean stop; returns the exit code.

        Raises:
            ChildDied: it did not react to SIGTERM in time and had to be killed.
        """
        return self._end(signal.SIGTERM)

    def wait(self, *, within_s: float) -> int:
        """Waits for its end without asking for it, and returns the exit code."""
        assert self._process is not None, f"{self.name} was not started"
        code = self._process.wait(within_s)
        self._process = None
        return code

    def log_tail(self) -> str:
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])

    def _end(self, with_signal: signal.Signals) -> int:
        if self._process is None:
            return 0
        process, self._process = self._process, None
        if process.poll() is None:
            process.send_signal(with_signal)
        try:
            return process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ChildDied(
                f"{self.name} ignored SIGTERM for {STOP_DEADLINE_S} s; its log ends:\n{self.log_tail()}"
            ) from None
