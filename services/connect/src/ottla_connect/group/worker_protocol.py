"""What workers say to each other through the coordinator: their state when they join, and what they are assigned.

The formats are Kafka Connect's, so that tools which know them can read an Ottla group. A worker offers the protocol
`sessioned` (version 2) and, for mixed groups, `compatible` (version 1); both are written the same way:

    state:      version int16, url string, config offset int64, allocation nullable bytes (an assignment, or null)
    assignment: version int16, error int16, leader string, leader url string, config offset int64,
                assigned array, revoked array, delay int32 (milliseconds)
    array:      count int32 (-1: null), of: connector string, tasks: count int32, of int32; -1 is the connector itself
    string:     length int16, UTF-8. bytes: length int32 (-1: null).

Fields may be missing at the end. Later versions are expected to begin like this one.

Source: ConnectProtocol and IncrementalCooperativeConnectProtocol in Kafka, KIP-415, KIP-507.

Pure.
"""

import struct
from dataclasses import dataclass

from ottla_connect.group.work import NO_WORK, Work
from ottla_connect.ids import TaskId

PROTOCOL_TYPE = "connect"
SESSIONED = "sessioned"
COMPATIBLE = "compatible"
VERSIONS = {SESSIONED: 2, COMPATIBLE: 1}
"""Protocols by name, in order of preference, and the version that each is written in."""

NO_ERROR = 0
CONFIG_MISMATCH = 1
"""The leader has not read as much of the config topic as another worker: all join again."""

CONNECTOR_ITSELF = -1
STRING_BYTES_MAX = 2**15 - 1
_NEWEST_VERSION = max(VERSIONS.values())


class MalformedWorkerMessage(ValueError):
    """Bytes are no state or assignment of a worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAssignment:
    """What the leader tells a worker.

    Attributes:
        error: `NO_ERROR` or `CONFIG_MISMATCH`; with an error there is nothing to do but to join again.
        leader: member id of the leader.
        leader_url: where its REST API is.
        config_offset: the assignment is made from the config topic up to here.
        assigned: what the worker shall run in addition.
        revoked: what it shall stop.
        delay_ms: when to join again, because some work waits for its worker to return; 0: it need not.
    """

    error: int = NO_ERROR
    leader: str = ""
    leader_url: str = ""
    config_offset: int = -1
    assigned: Work = NO_WORK
    revoked: Work = NO_WORK
    delay_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """What a worker says when it joins.

    Attributes:
        url: where its REST API is.
        config_offset: how far it has read the config topic.
        allocation: what it runs now, as an assignment; None if nothing.
    """

    url: str
    config_offset: int
    allocation: WorkerAssignment | None = None

    @property
    def work(self) -> Work:
        """What it runs now."""
        return NO_WORK if self.allocation is None else self.allocation.assigned


def encode_state(state: WorkerState, protocol: str) -> bytes:
    """Return a worker's state as JoinGroup's metadata for one of the protocols."""
    allocation = None if state.allocation is None else encode_assignment(state.allocation, protocol)
    return b"".join(
        (
            struct.pack(">h", VERSIONS[protocol]),
            _string(state.url),
            struct.pack(">q", state.config_offset),
            struct.pack(">i", -1) if allocation is None else struct.pack(">i", len(allocation)) + allocation,
        )
    )


def encode_assignment(assignment: WorkerAssignment, protocol: str) -> bytes:
    """Return an assignment as SyncGroup carries it."""
    return b"".join(
        (
            struct.pack(">hh", VERSIONS[protocol], assignment.error),
            _string(assignment.leader),
            _string(assignment.leader_url),
            struct.pack(">q", assignment.config_offset),
            _work(assignment.assigned),
            _work(assignment.revoked),
            struct.pack(">i", assignment.delay_ms),
        )
    )


def decode_state(data: bytes) -> WorkerState:
    """Return a worker's state.

    Raises:
        MalformedWorkerMessage: the bytes are malformed.
    """
    reader = _Reader(data, "worker state")
    version = reader.version()
    url, config_offset = reader.string("url"), reader.integer(">q", "config offset")
    allocation = reader.nullable_bytes("allocation") if reader.has_more else None
    reader.check_end(version)
    return WorkerState(
        url=url, config_offset=config_offset, allocation=None if allocation is None else decode_assignment(allocation)
    )


def decode_assignment(data: bytes) -> WorkerAssignment:
    """Return an assignment.

    Raises:
        MalformedWorkerMessage: the bytes are malformed.
    """
    reader = _Reader(data, "worker assignment")
    version = reader.version()
    assignment = WorkerAssignment(
        error=reader.integer(">h", "error"),
        leader=reader.string("leader"),
        leader_url=reader.string("leader url"),
        config_offset=reader.integer(">q", "config offset"),
        assigned=reader.work("assigned") if reader.has_more else NO_WORK,
        revoked=reader.work("revoked") if reader.has_more else NO_WORK,
        delay_ms=reader.integer(">i", "delay") if reader.has_more else 0,
    )
    reader.check_end(version)
    return assignment


def _string(text: str) -> bytes:
    encoded = text.encode()
    assert len(encoded) <= STRING_BYTES_MAX, f"{text[:40]}… has {len(encoded)} bytes, a string has at most 32767"
    return struct.pack(">h", len(encoded)) + encoded


def _work(work: Work) -> bytes:
    numbers: dict[str, list[int]] = {name: [CONNECTOR_ITSELF] for name in sorted(work.connectors)}
    for task in sorted(work.tasks):
        numbers.setdefault(task.connector, []).append(task.task)
    parts = [struct.pack(">i", len(numbers))]
    for name, tasks in numbers.items():
        parts += _string(name), struct.pack(f">i{len(tasks)}i", len(tasks), *tasks)
    return b"".join(parts)


class _Reader:
    """Reads fields one after another, and says which of them does not fit."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._what = what
        self._offset = 0

    @property
    def has_more(self) -> bool:
        return self._offset < len(self._data)

    def version(self) -> int:
        version = self.integer(">h", "version")
        if version < 0:
            raise MalformedWorkerMessage(f"{self._what}: its version is {version}")
        return version

    def check_end(self, version: int) -> None:
        """Check that nothing is left of a version that we know."""
        if version <= _NEWEST_VERSION and self.has_more:
            raise MalformedWorkerMessage(
                f"{self._what}: {len(self._data) - self._offset} bytes are left behind its end at {self._offset}"
            )

    def integer(self, form: str, field: str) -> int:
        value: int = struct.unpack(form, self._take(struct.calcsize(form), field))[0]
        return value

    def string(self, field: str) -> str:
        length = self.integer(">h", field)
        if length < 0:
            raise MalformedWorkerMessage(f"{self._what}: the length of its {field} is {length}")
        try:
            return self._take(length, field).decode()
        except UnicodeDecodeError:
            raise MalformedWorkerMessage(f"{self._what}: its {field} is no UTF-8") from None

    def nullable_bytes(self, field: str) -> bytes | None:
        length = self.integer(">i", field)
        return None if length == -1 else self._take(length, field)

    def work(self, field: str) -> Work:
        connectors: set[str] = set()
        tasks: set[TaskId] = set()
        for _ in range(max(self._count(field, at_least=-1), 0)):
            name = self.string(field)
            for _ in range(self._count(field, at_least=0)):
                number = self.integer(">i", field)
                if number < CONNECTOR_ITSELF:
                    raise MalformedWorkerMessage(f"{self._what}: {field} has a task {name}-{number}")
                if number == CONNECTOR_ITSELF:
                    connectors.add(name)
                else:
                    tasks.add(TaskId(name, number))
        return Work(frozenset(connectors), frozenset(tasks))

    def _count(self, field: str, *, at_least: int) -> int:
        count = self.integer(">i", field)
        # Every element takes four bytes or more; a larger count is not worth beginning with.
        if not at_least <= count <= (len(self._data) - self._offset) // 4:
            raise MalformedWorkerMessage(f"{self._what}: {field} cannot have {count} elements")
        return count

    def _take(self, size: int, field: str) -> bytes:
        end = self._offset + size
        if size < 0 or end > len(self._data):
            raise MalformedWorkerMessage(
                f"{self._what}: {size} bytes of its {field} at {self._offset} do not fit into {len(self._data)}"
            )
        piece = self._data[self._offset : end]
        self._offset = end
        return piece
