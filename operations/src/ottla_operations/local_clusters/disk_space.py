"""How much room there is where a local cluster keeps its data, and what too little of it means.

A broker without room stores no records and goes on when there is some again. etcd ends when it cannot write, and
takes room in advance: 64 MB when it begins, and as much again whenever it has written that.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla_operations.quantities import human_bytes

FULL_BYTES = 4 << 20
"""With less than this, brokers cannot be relied on to store even a small batch, and nothing starts."""
SCARCE_BYTES = 128 << 20
"""With less than this, etcd may end, as it takes 64 MB at a time."""
NEW_CLUSTER_BYTES = 80 << 20
"""What a cluster needs that begins: mostly etcd's."""


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """The file system of a directory.

    Attributes:
        free_bytes: what a cluster can take.
        size_bytes: of the file system.
    """

    free_bytes: int
    size_bytes: int

    @property
    def is_full(self) -> bool:
        """Whether nothing can be stored."""
        return self.free_bytes < FULL_BYTES

    def line(self) -> str:
        """Return it in one line."""
        room = f"{human_bytes(self.free_bytes)} free of {human_bytes(self.size_bytes)}"
        if self.is_full:
            return f"{room}: full, so that brokers store no records; they do so again when there is room"
        return f"{room}, which is little" if self.free_bytes < SCARCE_BYTES else room

    def problem_of_start(self, directory: Path, *, is_new: bool) -> str | None:
        """Return why a cluster cannot start there; None if it can.

        Args:
            directory: the cluster's, for the message.
            is_new: whether its etcd has no data yet.
        """
        needed = NEW_CLUSTER_BYTES if is_new else FULL_BYTES
        if self.free_bytes >= needed:
            return None
        return (
            f"there is no room in {directory}: its disk has {human_bytes(self.free_bytes)} free of "
            f"{human_bytes(self.size_bytes)}, and a {'new ' if is_new else ''}cluster needs {human_bytes(needed)}; "
            "make room, or choose another --dir"
        )

    def to_document(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"free_bytes": self.free_bytes, "size_bytes": self.size_bytes}


def disk_space(directory: Path) -> DiskSpace | None:
    """Return the room at a directory; None if nobody can tell."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return None
    return DiskSpace(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)
