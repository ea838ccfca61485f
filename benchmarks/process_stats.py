"""What a process has used, from /proc: CPU seconds, resident memory, when it started, and who listens on a port."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_LISTENING = "0A"
_UTIME, _STIME, _STARTTIME = 11, 12, 19
"""Places in /proc/PID/stat counted behind the command's closing parenthesis."""


class NoListenerError(LookupError):
    """No process that we may look into listens on the port."""


@dataclass(frozen=True, slots=True)
class CpuTime:
    """CPU seconds of a process, with all its threads."""

    user_s: float
    system_s: float

    @property
    def total_s(self) -> float:
        return self.user_s + self.system_s

    def __sub__(self, earlier: "CpuTime") -> "CpuTime":
        return CpuTime(self.user_s - earlier.user_s, self.system_s - earlier.system_s)


def cpu_time(pid: int) -> CpuTime:
    """Return what the process has used so far; the kernel counts in hundredths of a second."""
    fields = _stat_fields(pid)
    return CpuTime(int(fields[_UTIME]) / _TICKS_PER_SECOND, int(fields[_STIME]) / _TICKS_PER_SECOND)


def started_at_s(pid: int) -> float:
    """Return when the process started, in seconds since boot (CLOCK_BOOTTIME)."""
    return int(_stat_fields(pid)[_STARTTIME]) / _TICKS_PER_SECOND


def resident_mib(pid: int) -> float:
    """Return the resident memory in MiB."""
    return _status_mib(pid, "VmRSS:")


def peak_mib(pid: int) -> float:
    """Return the most resident memory that it has had so far, in MiB."""
    return _status_mib(pid, "VmHWM:")


def forget_peak(pid: int) -> None:
    """Have `peak_mib` begin anew with what is resident now; the process has to be one that we may trace."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # `man proc_pid_clear_refs`


def proportional_mib(pid: int) -> float:
    """Return the proportional set size in MiB: what is shared counts in parts. 0 if the process ended meanwhile."""
    return sum(_sizes_kib(pid, ("Pss:",))) / 1024


def shared_once_mib(pids: Iterable[int]) -> float:
    """Return the memory of several processes in MiB, counting what they share among themselves once.

    What was not read from a file is taken from their proportional set sizes: such pages are shared by processes that
    were forked from one another. Of a file's pages, each part counts with as much as the process has in memory that
    has most of it, whoever else on the machine uses the file.
    """
    own_kib = 0
    of_files: dict[str, int] = {}
    for pid in pids:
        own_kib += sum(_sizes_kib(pid, ("Pss_Anon:", "Pss_Shmem:")))
        for part, size_kib in _file_pages_kib(pid):
            of_files[part] = max(of_files.get(part, 0), size_kib)
    return (own_kib + sum(of_files.values())) / 1024


def children(pid: int) -> list[int]:
    """Return the processes that a process has started and that run."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def descendants(pid: int) -> dict[int, str]:
    """Return the processes below a process, by id, with the names of their commands."""
    found: dict[int, str] = {}
    for child in children(pid):
        with contextlib.suppress(OSError):
            found[child] = Path(f"/proc/{child}/comm").read_text().strip()
        found |= descendants(child)
    return found


def listener_pid(port: int) -> int:
    """Return the process that listens on a TCP port of this machine.

    Raises:
        NoListenerError: there is none, or it belongs to another user.
    """
    sockets = {f"socket:[{inode}]" for name in ("tcp", "tcp6") for inode in _listening_inodes(name, port)}
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and sockets & _open_files(directory / "fd"):
            return int(directory.name)
    raise NoListenerError(f"found no process that listens on port {port}; name it with --pid")


def _stat_fields(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _status_mib(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(f"process {pid} has no memory any more")


def _sizes_kib(pid: int, names: tuple[str, ...]) -> list[int]:
    """Return lines of the sum over all mappings; none if the process ended meanwhile."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return []
    return [int(line.split()[1]) for line in lines if line.startswith(names)]


def _file_pages_kib(pid: int) -> Iterator[tuple[str, int]]:
    """Yield each mapped part of a file, by offset, inode and path, and how much of it is in memory unchanged."""
    part, resident_kib = "", 0
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):  # address, permissions, offset, device, inode, path
            part = " ".join(words[2:]) if words[4] != "0" else ""
        elif words[0] == "Rss:":
            resident_kib = int(words[1])
        elif words[0] == "Anonymous:" and part:  # what was written to since is a copy of the process's own
            yield part, resident_kib - int(words[1])


def _listening_inodes(name: str, port: int) -> list[str]:
    try:
        lines = Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    except FileNotFoundError:  # no IPv6 here
        return []
    rows = [line.split() for line in lines]
    return [row[9] for row in rows if row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) == port]


def _open_files(directory: Path) -> set[str]:
    """Return what a process has open; nothing if it ended meanwhile, or is not ours to look into."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for entry in directory.iterdir():
            with contextlib.suppress(OSError):
                found.add(str(entry.readlink()))
    return found
