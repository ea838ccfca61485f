"""What the worker's stores are built on: a log of keys and values of which the last value of every key is kept.

`KeyedLog` is the contract. `TopicLog` (a compacted topic) and `FileLog` (a file) fulfil it, and `MemoryLog` here,
for a standalone worker's configuration and statuses.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from ottla_connect.state.config_records import Write


class LogError(Exception):
    """A log cannot be read or written; the message says why.

    After a write that failed for its time, the records may still be stored.
    """


class NotInTime(LogError):
    """A write has taken too long and was given up: most likely the records are not stored, but they may be."""


NO_TIMESTAMP = -1


class Entry(NamedTuple):
    """A record of a log; no value is a tombstone. Offsets of one key, at least, only grow.

    When records of several keys were written, only `timestamp_ms` tells: partitions are read in any order.
    """

    key: bytes | None
    value: bytes | None
    offset: int
    timestamp_ms: int = NO_TIMESTAMP


OnEntry = Callable[[Entry], None]


class KeyedLog(Protocol):
    """A log of keys and values. All methods are for the event loop that called `start`."""

    async def start(self, on_entry: OnEntry) -> None:
        """Read all that is there, then go on; `on_entry` is called for each record, in order for each key.

        Raises:
            LogError: it cannot be read.
        """

    async def write(self, writes: Sequence[Write], timeout_s: float) -> None:
        """Append records, in their order, and return when they are stored for good.

        Raises:
            LogError: they are not, or not in time.
        """

    async def read_to_end(self, timeout_s: float) -> None:
        """Return when `on_entry` was called for everything that was stored before this call.

        Raises:
            LogError: it cannot be read, or not in time.
        """

    async def close(self) -> None:
        """Stop reading and writing."""


class MemoryTopic:
    """What several `MemoryLog`s share, as workers share a topic: the last value of every key, and who reads it."""

    def __init__(self) -> None:
        self.end_offset = 0
        self.entries: dict[bytes, Entry] = {}
        self.readers: list[OnEntry] = []

    def append(self, write: Write, timestamp_ms: int = NO_TIMESTAMP) -> None:
        """Store a record and show it to every reader."""
        entry = Entry(write.key, write.value, self.end_offset, timestamp_ms)
        self.end_offset += 1
        self.entries.pop(write.key, None)
        if write.value is not None:
            self.entries[write.key] = entry
        for reader in list(self.readers):
            reader(entry)


class MemoryLog:
    """A `KeyedLog` in memory."""

    def __init__(self, topic: MemoryTopic | None = None) -> None:
        self._topic = topic if topic is not None else MemoryTopic()
        self._on_entry: OnEntry | None = None

    async def start(self, on_entry: OnEntry) -> None:
        """Read all that is there, then go on."""
        for entry in list(self._topic.entries.values()):
            on_entry(entry)
        self._on_entry = on_entry
        self._topic.readers.append(on_entry)

    async def write(self, writes: Sequence[Write], timeout_s: float) -> None:
        """Append records."""
        if self._on_entry is None:
            raise LogError("the log is closed")
        for write in writes:
            self._topic.append(write)

    async def read_to_end(self, timeout_s: float) -> None:
        """Return at once: readers see everything as it is written."""

    async def close(self) -> None:
        """Stop reading and writing."""
        if self._on_entry is not None:
            self._topic.readers.remove(self._on_entry)
            self._on_entry = None
