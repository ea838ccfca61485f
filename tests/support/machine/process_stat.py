"""What Linux says of any process, which may end while it is asked."""

from pathlib import Path


def stat(pid: int) -> list[str]:
    """Return the fields of its `stat` from its state on: the state, the parent, …"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):  # it went before the file was opened, or before it was read
        return ["X", "0"]


def has_ended(pid: int) -> bool:
    """Return whether a process runs no more, though perhaps its parent has not asked how it ended."""
    return stat(pid)[0] in ("Z", "X")
