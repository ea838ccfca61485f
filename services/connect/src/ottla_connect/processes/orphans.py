"""Ends what is left of processes whose launcher has died."""

import os
import signal
import sys
from contextlib import suppress


def kill_group_of_orphan(pid: int) -> None:
    """Kill what is left of a process group: the process where the kernel does not, and what it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    if sys.platform != "linux":
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def reap_orphan(pid: int) -> None:
    """Reap a process whose launcher has died, if this worker is its parent now: the first process of a container."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
