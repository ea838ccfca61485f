"""One process of a trial's cluster: started, killed, stopped, paused, and watched for an end that nobody asked for.

A stop may take long while other faults are in force, so nothing here waits for it: `look`, which the trial calls
again and again, sees what has ended and starts what shall run. A service that cannot start, for example because it
cannot reach etcd, ends with a message and is started again, as any supervisor would do; one that ends after it was
ready is a problem.
"""

import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from ottla_core.lifecycle import EXIT_BAD_CONFIGURATION, EXIT_FAILURE
from tests.support.child_process import ChildProcess
from tests.support.eventually import NotInTime, eventually

START_AGAIN_DELAY_S = 0.5
COULD_NOT_START = (EXIT_FAILURE, EXIT_BAD_CONFIGURATION)
"""A broker whose only disk is full takes its log directory for misconfigured."""


class ClusterProcess:
    """One process.

    Attributes:
        name: for example `broker-1`.
        problems: every end that nobody asked for.
        pids: the process ids of all its runs.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        ready_line: bytes,
        clean_exit_codes: Collection[int] = (0,),
        env: Mapping[str, str] | None = None,
    ):
        """See the class.

        Args:
            name: for example `broker-1`.
            command: what to run.
            log: where its output goes.
            ready_line: what it logs when it has started.
            clean_exit_codes: how it may answer SIGTERM.
            env: variables on top of our own.
        """
        self.name = name
        self.log = log
        self.problems: list[str] = []
        self.pids: list[int] = []
        self._child = ChildProcess(name, command, log=log, env=env)
        self._ready_line = ready_line
        self._clean_exit_codes = clean_exit_codes
        self._wanted = False
        self._stopping = False
        self._log_bytes_at_start = 0
        self._start_at_s = 0.0

    def start(self) -> None:
        """Has it run from now on; if its last run has not ended yet, as soon as it has."""
        self._wanted = True
        self._start_at_s = 0.0
        self.look()

    def kill(self) -> None:
        """SIGKILL, and no start until it is asked for."""
        self._wanted = self._stopping = False
        self._child.kill()

    def begin_stop(self) -> None:
        """SIGTERM, and no start until it is asked for."""
        self._wanted = False
        if self._child.is_running():
            self._stopping = True
            os.kill(self._child.pid, signal.SIGTERM)

    def pause(self) -> None:
        """SIGSTOP."""
        if self._child.is_running():
            os.kill(self._child.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        if self._child.is_running():
            os.kill(self._child.pid, signal.SIGCONT)

    def is_running(self) -> bool:
        return self._child.is_running()

    def is_ready(self) -> bool:
        """Whether it runs and has logged that it is ready since its start."""
        return self._child.is_running() and self._was_ready()

    def has_stopped(self) -> bool:
        """Whether a stop that was begun is over; notes how it ended."""
        self.look()
        return not self._stopping

    def look(self) -> None:
        """Notes an end of the process, and starts it if it shall run and does not."""
        if self._child.is_running():
            return
        self._note_end()
        if self._wanted and time.monotonic() >= self._start_at_s:
            self._log_bytes_at_start = self.log.stat().st_size if self.log.exists() else 0
            self._child.start()
            self.pids.append(self._child.pid)

    def _note_end(self) -> None:
        try:
            code = self._child.wait(within_s=0)
        except AssertionError:  # it was never started, or its end is noted already
            return
        except subprocess.TimeoutExpired:
            return
        if self._stopping:
            self._stopping = False
            if code not in self._clean_exit_codes and not self._ended_while_starting(code):
                self.problems.append(f"{self.name} answered SIGTERM with exit code {code}")
            return
        could_not_start = code in COULD_NOT_START and not self._was_ready()
        if not could_not_start:
            self.problems.append(f"{self.name} ended by itself with exit code {code}; see {self.log}")
        self._start_at_s = time.monotonic() + START_AGAIN_DELAY_S

    def _ended_while_starting(self, code: int) -> bool:
        """Whether SIGTERM found it before it could react to it, which the signal's default action does then."""
        return code == -signal.SIGTERM and not self._was_ready()

    def _was_ready(self) -> bool:
        with self.log.open("rb") as log:
            log.seek(self._log_bytes_at_start)
            return self._ready_line in log.read()


def look_at(processes: Iterable[ClusterProcess]) -> None:
    """Sees what has ended, and starts what shall run."""
    for process in processes:
        process.look()


def wait_until_ready(processes: Collection[ClusterProcess], *, within_s: float) -> None:
    """Waits until all of them are ready, and starts meanwhile what shall run.

    Raises:
        NotInTime: some are not; the message names them.
    """

    def missing() -> list[str]:
        look_at(processes)
        return [process.name for process in processes if not process.is_ready()]

    try:
        eventually(lambda: not missing(), "every process is ready", within_s=within_s)
    except NotInTime:
        raise NotInTime(f"after {within_s} s not ready: {', '.join(missing())}") from None
