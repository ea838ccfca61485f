"""Consumer groups: how many members stay stable, what a heartbeat and a commit cost, how long a rebalance takes.

`stability` keeps members heartbeating at a consumer's pace and counts what should not happen. `rates` sends
heartbeats and commits as fast as they are answered, one on the way per connection; the requests per second of one
core follow from the CPU time that the broker's and the coordinator's process use. `rebalance` lets one more member
join a large group, and then lets everybody join again at once.
"""

import asyncio
import functools
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v8.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

from benchmarks.client import BenchmarkFailed
from benchmarks.group_client import GroupFigures, Member, living, wait_for_coordinator
from benchmarks.process_stats import cpu_time, resident_mib
from benchmarks.summary import percentiles
from tests.support.clients.raw_client import encode_request

HEARTBEAT_INTERVAL_S = 3.0
FAST_HEARTBEAT_INTERVAL_S = 1.0
STABLE_TIMEOUT_S = 120.0
POLL_S = 0.05


class ProcessMeter:
    """CPU time of processes by name, between two moments."""

    def __init__(self, processes: Mapping[str, int]) -> None:
        self._processes = dict(processes)
        self._before = {name: cpu_time(pid) for name, pid in self._processes.items()}
        self._began_s = time.perf_counter()

    def stop(self) -> tuple[dict[str, float], float]:
        """Return CPU seconds by process and the seconds that have passed."""
        elapsed_s = time.perf_counter() - self._began_s
        used = {name: (cpu_time(pid) - self._before[name]).total_s for name, pid in self._processes.items()}
        return used, elapsed_s


@dataclass(frozen=True, slots=True)
class GroupLoad:
    """Where groups are measured: a broker's address, a topic, and the processes that serve it."""

    bootstrap: str
    topic: str
    partitions: int
    processes: Mapping[str, int]

    def members(self, groups: int, members: int, figures: GroupFigures) -> list[Member]:
        """Return members spread evenly over groups."""
        run = f"{time.time_ns():x}"
        return [
            Member(self.bootstrap, f"group-{run}-{index % groups}", self.topic, self.partitions, figures)
            for index in range(members)
        ]


async def stability(load: GroupLoad, *, groups: int, members: int, seconds: float) -> dict[str, float]:
    """Keep members alive; return what changed although nobody came or went, and the load that they are."""
    figures = GroupFigures()
    everyone = load.members(groups, members, figures)
    await wait_for_coordinator(load.bootstrap, sorted({member.group for member in everyone}))
    began_s = time.perf_counter()
    async with living(everyone, HEARTBEAT_INTERVAL_S):
        await _until_settled(everyone)
        stable_after_s = figures.last_synced_s - began_s
        joined, errors = figures.joined, figures.errors.total()
        figures.heartbeat_ms.clear()
        meter = ProcessMeter(load.processes)
        await asyncio.sleep(seconds)
        used, elapsed_s = meter.stop()
        owned = sum(member.partitions for member in everyone)
    if owned != groups * load.partitions:
        raise BenchmarkFailed(f"{owned} partitions are owned instead of {groups * load.partitions}: {figures.errors}")
    return {
        "stable_after_s": stable_after_s,
        "rejoins": float(figures.joined - joined),
        "errors": float(figures.errors.total() - errors),
        "heartbeats_per_s": len(figures.heartbeat_ms) / elapsed_s,
        **percentiles(figures.heartbeat_ms, "heartbeat_{}_ms"),
        **{f"{name}_cpu_percent": 100 * seconds_used / elapsed_s for name, seconds_used in used.items()},
        **{f"{name}_mib": resident_mib(pid) for name, pid in load.processes.items()},
    }


async def rebalance(load: GroupLoad, *, members: int) -> dict[str, float]:
    """Return how long a group needs for one more member, and for everybody joining again at once."""
    figures = GroupFigures()
    *everyone, newcomer = load.members(1, members + 1, figures)
    await wait_for_coordinator(load.bootstrap, [newcomer.group])
    async with living(everyone, FAST_HEARTBEAT_INTERVAL_S):
        await _until_settled(everyone)
        meter = ProcessMeter(load.processes)
        began_s = time.perf_counter()
        await newcomer.connect()
        await newcomer.join()
        await _until_settled([*everyone, newcomer])
        one_more_s = figures.last_synced_s - began_s
        used, _ = meter.stop()
    try:
        for member in everyone:
            await member.connect()
        began_s = time.perf_counter()
        await asyncio.gather(*(member.join() for member in [*everyone, newcomer]))
        at_once_s = figures.last_synced_s - began_s
    finally:
        for member in [*everyone, newcomer]:
            member.close()
    return {
        "one_more_member_s": one_more_s,
        "all_at_once_s": at_once_s,
        **{f"{name}_cpu_s": seconds for name, seconds in used.items()},
    }


async def rates(load: GroupLoad, *, groups: int, connections: int, seconds: float) -> dict[str, float]:
    """Return heartbeats and commits per second, in all and per core of each process, with latencies."""
    figures = GroupFigures()
    everyone = load.members(groups, connections, figures)
    await wait_for_coordinator(load.bootstrap, sorted({member.group for member in everyone}))
    found: dict[str, float] = {}
    for member in everyone:
        await member.connect()
    try:
        await asyncio.gather(*(member.join() for member in everyone))
        for name, frame_of in (("heartbeat", Member.heartbeat_request), ("commit", _commit_request(load))):
            frames = [encode_request(frame_of(member), 1) for member in everyone]
            found |= await _rate(load, name, frames, seconds)
    finally:
        for member in everyone:
            member.close()
    return found


def _commit_request(load: GroupLoad) -> Any:
    def request(member: Member) -> Any:
        partition: Any = OffsetCommitRequestPartition(
            partition_index=0,  # type: ignore[arg-type]  # kio's number types are checked when they are written
            committed_offset=1_000_000,  # type: ignore[arg-type]
            committed_leader_epoch=0,  # type: ignore[arg-type]
            committed_metadata="",
        )
        return OffsetCommitRequest(
            group_id=member.group,  # type: ignore[arg-type]
            generation_id_or_member_epoch=member.generation,  # type: ignore[arg-type]
            member_id=member.member_id,
            group_instance_id=None,
            topics=(OffsetCommitRequestTopic(name=load.topic, partitions=(partition,)),),  # type: ignore[arg-type]
        )

    return request


class _Repeater(asyncio.Protocol):
    """Sends one frame again and again, each time the answer is there, and times the answers."""

    def __init__(self, payload: bytes) -> None:
        self._frame = struct.pack(">i", len(payload)) + payload
        self._expected = b""
        self._received = b""
        self._sent_s = 0.0
        self._transport: asyncio.Transport | None = None
        self.waits_ms: list[float] = []
        self.unlike = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) < 4 or len(self._received) < 4 + struct.unpack_from(">i", self._received)[0]:
            return
        answer, self._received = self._received, b""
        self.waits_ms.append((time.perf_counter() - self._sent_s) * 1000)
        # The same request with the same correlation id has the same answer for as long as the group is stable.
        self._expected = self._expected or answer
        self.unlike += answer != self._expected
        self._send()

    def _send(self) -> None:
        assert self._transport is not None
        self._sent_s = time.perf_counter()
        self._transport.write(self._frame)

    def stop(self) -> bytes:
        """Stop; return the first answer."""
        assert self._transport is not None
        self._transport.abort()
        return self._expected


async def _rate(load: GroupLoad, name: str, payloads: list[bytes], seconds: float) -> dict[str, float]:
    host, _, port = load.bootstrap.rpartition(":")
    loop = asyncio.get_running_loop()
    meter = ProcessMeter(load.processes)
    repeaters = [_Repeater(payload) for payload in payloads]
    for repeater in repeaters:
        await loop.create_connection(functools.partial(_same, repeater), host, int(port))
    await asyncio.sleep(seconds)
    used, elapsed_s = meter.stop()
    answers = [repeater.stop() for repeater in repeaters]
    waits_ms = [wait for repeater in repeaters for wait in repeater.waits_ms]
    unlike = sum(repeater.unlike for repeater in repeaters)
    if unlike or not all(answer and _no_error(answer) for answer in answers):
        raise BenchmarkFailed(f"{name}: {unlike} answers unlike the first; first ones {set(answers)}")
    return {
        f"{name}s_per_s": len(waits_ms) / elapsed_s,
        **percentiles(waits_ms, name + "_{}_ms"),
        **{
            f"{name}s_per_s_per_core_of_{process}": len(waits_ms) / seconds_used
            for process, seconds_used in used.items()
            if seconds_used
        },
    }


def _same(repeater: _Repeater) -> _Repeater:
    return repeater


def _no_error(answer: bytes) -> bool:
    """Return whether the answer to a heartbeat (v4) or to a commit of one partition (v8) holds no error.

    Both end with the error code and empty tagged fields: one byte for the heartbeat, one each for partition,
    topic and message in the commit.
    """
    code = answer[-3:-1] if len(answer) == _HEARTBEAT_ANSWER_BYTES else answer[-5:-3]
    return ErrorCode(struct.unpack(">h", code)[0]) is ErrorCode.none


_HEARTBEAT_ANSWER_BYTES = 4 + 4 + 1 + 4 + 2 + 1
"""Length, correlation id, tagged fields, throttle time, error code, tagged fields."""


async def _until_settled(members: list[Member]) -> None:
    """Wait until the members of each group have all been assigned partitions in the same generation.

    Raises:
        BenchmarkFailed: they do not.
    """
    give_up_s = time.monotonic() + STABLE_TIMEOUT_S
    while time.monotonic() < give_up_s:
        generations: dict[str, set[int]] = {}
        for member in members:
            generations.setdefault(member.group, set()).add(member.synced_generation)
        if all(len(seen) == 1 and -1 not in seen for seen in generations.values()):
            return
        await asyncio.sleep(POLL_S)
    raise BenchmarkFailed(f"the groups were not stable after {STABLE_TIMEOUT_S} s")
