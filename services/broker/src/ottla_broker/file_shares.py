"""How the file descriptors that the process may have are shared out.

Clients' connections are the one thing that others decide the number of. They get what is left when segments have
their share and something is kept for all else: a log that cannot open the file that it is about to write fails its
producers, and one that cannot fsync fails them all.
"""

from dataclasses import dataclass
from typing import Final

from ottla_broker.log.segments.segment_file import OPEN_FILES_MAX

RESERVED_FILES: Final = 256
"""For index files and checkpoints while they are written, new segments, other brokers, etcd, listeners and pipes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileShares:
    """Shares of the descriptors.

    Attributes:
        segments: segments that keep their file open.
        connections: clients' connections.
    """

    segments: int
    connections: int


def share_files(limit: int) -> FileShares:
    """Return the shares of so many descriptors; where they are few, logs and all else get a quarter each."""
    segments = min(OPEN_FILES_MAX, limit // 4)
    reserved = min(RESERVED_FILES, limit // 4)
    return FileShares(segments=max(1, segments), connections=max(1, limit - segments - reserved))
