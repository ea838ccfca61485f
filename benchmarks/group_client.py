"""Members of classic consumer groups, many in one process: the load of the group benchmarks.

They speak the protocol directly (JoinGroup, SyncGroup, Heartbeat), each over a connection of its own as real
consumers do, but fetch nothing: what is measured is coordination. The group's first member assigns partitions
round-robin.
"""

import asyncio
import contextlib
import struct
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Self

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment

from benchmarks.client import BenchmarkFailed
from tests.support.clients.raw_client import decode_response, encode_request, response_type_of

SESSION_TIMEOUT_S = 45.0
REBALANCE_TIMEOUT_S = 60.0
COORDINATOR_TIMEOUT_S = 30.0
RETRY_S = 0.1
PROTOCOL = "roundrobin"
_LENGTH = struct.Struct(">i")


class GroupConnection:
    """One connection with one request on the way at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._correlation_id = 0

    @classmethod
    async def to(cls, bootstrap: str) -> Self:
        """Connect to a ``host:port``."""
        host, _, port = bootstrap.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def ask(self, request: Any) -> Any:
        """Send a request and return the answer."""
        self._correlation_id += 1
        payload = encode_request(request, self._correlation_id)
        self._writer.write(_LENGTH.pack(len(payload)) + payload)
        (size,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
        return decode_response(await self._reader.readexactly(size), response_type_of(request))[1]

    def close(self) -> None:
        self._writer.close()


@dataclass(slots=True)
class GroupFigures:
    """What all members of a measurement have seen.

    Attributes:
        heartbeat_ms: how long each heartbeat's answer took.
        joined: how often a member has come to know a new generation.
        errors: unexpected error codes, by API and name.
        last_synced_s: when a member got an assignment last, by `time.perf_counter`.
    """

    heartbeat_ms: list[float] = field(default_factory=list)
    joined: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    last_synced_s: float = 0.0


class Member:
    """One member of a classic group.

    Attributes:
        generation: the last one that it joined.
        synced_generation: the last one that it has an assignment of.
        partitions: how many it was assigned.
    """

    def __init__(self, bootstrap: str, group: str, topic: str, partitions: int, figures: GroupFigures) -> None:
        self.group = group
        self.generation = -1
        self.synced_generation = -1
        self.member_id = ""
        self.partitions = 0
        self._bootstrap = bootstrap
        self._topic = topic
        self._topic_partitions = partitions
        self._figures = figures
        self._connection: GroupConnection | None = None

    async def connect(self) -> None:
        self._connection = await GroupConnection.to(self._bootstrap)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    async def join(self) -> None:
        """Join, or join again, and take part until there is an assignment."""
        while True:
            answer = await self._ask(self._join_request())
            if answer.error_code is ErrorCode.member_id_required:
                self.member_id = answer.member_id
                continue
            if answer.error_code is not ErrorCode.none:
                await self._note("join", answer.error_code)
                continue
            self.member_id, self.generation = answer.member_id, answer.generation_id
            assignments = self._assign(answer) if answer.leader == self.member_id else ()
            synced = await self._ask(self._sync_request(assignments))
            if synced.error_code is ErrorCode.none:
                self.synced_generation = self.generation
                self.partitions = _count_partitions(synced.assignment)
                self._figures.joined += 1
                self._figures.last_synced_s = time.perf_counter()
                return
            await self._note("sync", synced.error_code)

    async def heartbeat(self) -> bool:
        """Return whether the generation still stands."""
        began_s = time.perf_counter()
        answer = await self._ask(self.heartbeat_request())
        self._figures.heartbeat_ms.append((time.perf_counter() - began_s) * 1000)
        if answer.error_code not in {ErrorCode.none, ErrorCode.rebalance_in_progress}:
            await self._note("heartbeat", answer.error_code)
        return bool(answer.error_code is ErrorCode.none)

    async def live(self, interval_s: float) -> None:
        """Join and heartbeat until cancelled."""
        await self.join()
        while True:
            await asyncio.sleep(interval_s)
            if not await self.heartbeat():
                await self.join()

    def heartbeat_request(self) -> Any:
        return HeartbeatRequest(
            group_id=self.group,  # type: ignore[arg-type]  # kio's string and number types are checked when written
            generation_id=self.generation,  # type: ignore[arg-type]
            member_id=self.member_id,
            group_instance_id=None,
        )

    async def _ask(self, request: Any) -> Any:
        assert self._connection is not None
        return await self._connection.ask(request)

    async def _note(self, api: str, code: ErrorCode) -> None:
        if code is ErrorCode.unknown_member_id:
            self.member_id = ""
        if code is not ErrorCode.rebalance_in_progress:
            self._figures.errors[f"{api}: {code.name}"] += 1
        await asyncio.sleep(RETRY_S)

    def _join_request(self) -> Any:
        return JoinGroupRequest(
            group_id=self.group,  # type: ignore[arg-type]
            session_timeout=timedelta(seconds=SESSION_TIMEOUT_S),  # type: ignore[arg-type]
            rebalance_timeout=timedelta(seconds=REBALANCE_TIMEOUT_S),  # type: ignore[arg-type]
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name=PROTOCOL, metadata=_subscription(self._topic)),),
            reason=None,
        )

    def _sync_request(self, assignments: tuple[SyncGroupRequestAssignment, ...]) -> Any:
        return SyncGroupRequest(
            group_id=self.group,  # type: ignore[arg-type]
            generation_id=self.generation,  # type: ignore[arg-type]
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocol_name=PROTOCOL,
            assignments=assignments,
        )

    def _assign(self, answer: Any) -> tuple[SyncGroupRequestAssignment, ...]:
        ids = sorted(member.member_id for member in answer.members)
        return tuple(
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=_assignment(self._topic, range(index, self._topic_partitions, len(ids))),
            )
            for index, member_id in enumerate(ids)
        )


async def wait_for_coordinator(bootstrap: str, groups: list[str]) -> None:
    """Return when every group has a coordinator.

    Raises:
        BenchmarkFailed: it takes too long.
    """
    connection = await GroupConnection.to(bootstrap)
    request: Any = FindCoordinatorRequest(key_type=0, coordinator_keys=tuple(groups))  # type: ignore[arg-type]
    try:
        async with asyncio.timeout(COORDINATOR_TIMEOUT_S):
            while True:
                answer = await connection.ask(request)
                if all(each.error_code is ErrorCode.none for each in answer.coordinators):
                    return
                await asyncio.sleep(RETRY_S)
    except TimeoutError:
        raise BenchmarkFailed(f"no coordinator after {COORDINATOR_TIMEOUT_S} s") from None
    finally:
        connection.close()


@contextlib.asynccontextmanager
async def living(members: list[Member], interval_s: float) -> Any:
    """Let members live for the length of a block; one that fails ends the measurement."""
    for member in members:
        await member.connect()
    tasks = [asyncio.create_task(member.live(interval_s)) for member in members]
    try:
        yield tasks
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for member in members:
            member.close()


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _subscription(topic: str) -> bytes:
    """Return a ConsumerProtocolSubscription, version 0."""
    return struct.pack(">hi", 0, 1) + _string(topic) + struct.pack(">i", -1)


def _assignment(topic: str, partitions: range) -> bytes:
    """Return a ConsumerProtocolAssignment, version 0."""
    listed = struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return struct.pack(">hi", 0, 1) + _string(topic) + listed + struct.pack(">i", -1)


def _count_partitions(assignment: bytes) -> int:
    if not assignment:
        return 0
    (length,) = struct.unpack_from(">h", assignment, 6)
    (count,) = struct.unpack_from(">i", assignment, 8 + length)
    return int(count)
