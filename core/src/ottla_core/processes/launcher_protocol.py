"""What an owner asks of its launcher, and what the launcher reports: records of fixed size on a stream socket. Pure.

A request to start a process carries two descriptors beside it (SCM_RIGHTS): the process's end of its channel and the
end of a pipe for its output. Requests and reports name a process by a number that the owner gives, so none can mean
a process that has ended and whose id the system has given to another.
"""

import enum
import struct
from collections.abc import Iterator
from typing import NamedTuple

NAME_BYTES_MAX = 15
"""Linux shows so much of a process's name."""

_REQUEST = struct.Struct(f"!BQ{NAME_BYTES_MAX}s")
_EVENT = struct.Struct("!BQii")

REQUEST_SIZE = _REQUEST.size
EVENT_SIZE = _EVENT.size


class RequestKind(enum.IntEnum):
    """What a launcher can do."""

    START = 1
    KILL = 2


class Request(NamedTuple):
    """Start a process, or kill it.

    Attributes:
        kind: which.
        number: the process's number, never used twice.
        name: what the system's list of processes shall show; only to start.
    """

    kind: RequestKind
    number: int
    name: str = ""

    def encode(self) -> bytes:
        """Return its record of `REQUEST_SIZE` bytes."""
        return _REQUEST.pack(self.kind, self.number, self.name.encode()[:NAME_BYTES_MAX])

    @classmethod
    def decode(cls, record: bytes) -> "Request":
        """Return the request that a record says."""
        kind, number, name = _REQUEST.unpack(record)
        return cls(RequestKind(kind), number, name.rstrip(b"\0").decode(errors="ignore"))


class LauncherEventKind(enum.IntEnum):
    """What happens in a launcher."""

    READY = 1
    STARTED = 2
    NOT_STARTED = 3
    EXITED = 4
    SIGNALLED = 5


class LauncherEvent(NamedTuple):
    """Something happened.

    Attributes:
        kind: what: the launcher is ready, a process has started, could not be, has ended by itself or by a signal.
        number: the process's number; 0 for the launcher's own report.
        pid: its process id, if it has one.
        value: the errno, exit code or signal that goes with the kind.
    """

    kind: LauncherEventKind
    number: int = 0
    pid: int = 0
    value: int = 0

    def encode(self) -> bytes:
        """Return its record of `EVENT_SIZE` bytes."""
        return _EVENT.pack(*self)


def take_events(received: bytearray) -> Iterator[LauncherEvent]:
    """Remove whole records from the front of what was received, and return them one by one."""
    while len(received) >= EVENT_SIZE:
        kind, number, pid, value = _EVENT.unpack_from(received)
        del received[:EVENT_SIZE]
        yield LauncherEvent(LauncherEventKind(kind), number, pid, value)
