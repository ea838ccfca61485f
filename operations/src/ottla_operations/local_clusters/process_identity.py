"""Which process a process id means.

Process ids are used again. A state file therefore keeps, next to each id, the moment the process started; a process
with the same id and another start is somebody else's and is never signalled. A zombie counts as gone: inside a
container nobody may ever collect it.
"""

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

_START_FIELD = 19  # field 22 of /proc/<pid>/stat, counted from the state that follows the command's name
_HAS_PROC = Path("/proc/self/stat").exists()
_GONE_STATES = frozenset("ZXx")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process, for ever.

    Attributes:
        pid: its process id.
        start: an opaque word that differs for any other process that gets the same id.
    """

    pid: int
    start: str


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of the live process with this id, or None."""
    if _HAS_PROC:
        return _identify_by_proc(pid)
    return _identify_by_ps(pid)


def is_alive(identity: ProcessIdentity) -> bool:
    """Tell whether exactly this process still runs."""
    return identify(identity.pid) == identity


def send_signal(identity: ProcessIdentity, number: signal.Signals) -> bool:
    """Send a signal to exactly this process; False if it has gone."""
    if not _HAS_PROC:
        return is_alive(identity) and _kill(identity.pid, number)
    try:
        descriptor = os.pidfd_open(identity.pid)
    except OSError:
        return False
    try:
        # The descriptor pins the process that has the id now; only then is it asked who that is.
        if not is_alive(identity):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def parse_proc_stat(text: str) -> tuple[str, str]:
    """Return the state letter and the start time (clock ticks since boot) of a /proc/<pid>/stat line.

    The command's name stands in parentheses and may itself contain spaces and parentheses.
    """
    fields = text.rpartition(")")[2].split()
    return fields[0], fields[_START_FIELD]


def _identify_by_proc(pid: int) -> ProcessIdentity | None:
    try:
        state, start = parse_proc_stat(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace"))
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in _GONE_STATES else ProcessIdentity(pid, f"{boot}/{start}")


def _identify_by_ps(pid: int) -> ProcessIdentity | None:
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, start = answer.stdout.strip().partition(" ")
    return None if not state or state[0] in _GONE_STATES else ProcessIdentity(pid, start.strip())


def _kill(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
