"""The runtime runs any state machine: here one that counts how often names were said, and knows nothing of groups."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from ottla_core.clock import SystemClock
from ottla_core.cluster.state.model import ClusterState
from ottla_core.errors import KafkaError
from ottla_core.rpc.server import RpcServer
from ottla_core.topic_partition import TopicPartition
from ottla_group_coordinator.runtime.awake_clock import AwakeClock
from ottla_group_coordinator.runtime.coordinator_counts import CoordinatorCounts
from ottla_group_coordinator.runtime.relay_service import GroupRelayService
from ottla_group_coordinator.runtime.remote_shard_log import RemoteShardLog
from ottla_group_coordinator.runtime.shard_batches import ShardProducer
from ottla_group_coordinator.runtime.shard_context import ShardContext
from ottla_group_coordinator.runtime.shard_runtime import ShardRuntime
from ottla_group_coordinator.runtime.state_machine import RecordFormat
from ottla_group_coordinator.runtime.timers import Timers
from ottla_group_coordinator.runtime.turn import CoordinatorRecord, Turn
from ottla_proto.gen.ottla.group_relay_pb2_grpc import add_GroupRelayServicer_to_server
from tests.support.eventually_async import eventually_async
from tests.support.groups.fake_relay_broker import FakeRelayBroker
from tests.support.groups.group_cluster import BROKER_EPOCH

SHARD = TopicPartition("__said_names", 2)
NAMES = RecordFormat(
    encode_key=str.encode, encode_value=lambda count: b"%d" % count, decode_key=bytes.decode,
    decode_value=lambda _, data: int(data),
)  # fmt: skip


@dataclass
class Saying:
    """A request: a name is said."""

    token: int
    message: str
    api_key: int = 1000
    api_version: int = 0
    tells_what_is_stored: bool = False


class SaidNames:
    """Counts by name; said for the third time a name is told to whoever counts what is stored."""

    def __init__(self) -> None:
        self.timestamps_ahead_ms = 0
        self.timers: Timers[str] = Timers()
        self.counts: dict[str, int] = {}

    def replay(self, record: CoordinatorRecord) -> None:
        self.counts[record.key] = record.value

    def loaded(self, now_ms: int) -> Turn:
        return Turn(now_ms, now_ms)

    def handle(self, request: Saying, now_ms: int) -> Turn:
        turn = Turn(now_ms, now_ms + self.timestamps_ahead_ms)
        record = CoordinatorRecord(request.message, self.counts.get(request.message, 0) + 1)
        turn.records.append(record)
        self.replay(record)
        turn.answer(request.token, record.value)
        if record.value == 3:
            turn.counted = (request.message,)
            self.timers.set(request.message, now_ms + 10)
        return turn

    def advance(self, now_ms: int) -> Turn:
        """Forget a name a moment after it was said three times."""
        turn = Turn(now_ms, now_ms + self.timestamps_ahead_ms)
        while (name := self.timers.pop_due(now_ms)) is not None:
            turn.records.append(CoordinatorRecord(name, 0))
            self.replay(turn.records[-1])
        return turn

    def on_cluster_state(self, state: ClusterState, now_ms: int) -> Turn:
        return Turn(now_ms, now_ms)


class Waiting:
    def __init__(self, request: Saying) -> None:
        self.request = request
        self.answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def answer(self, response: Any) -> None:
        self.answered.set_result(response)

    def refuse(self, error: KafkaError) -> None:
        self.answered.set_exception(error)


class Runtimes:
    """One ownership after the other of a shard that one broker leads."""

    def __init__(self, service: GroupRelayService) -> None:
        self._service = service
        self._epoch = -1
        self._tokens = 0
        self.stored: Counter[str] = Counter()
        clock = SystemClock()
        self._surroundings = ShardContext(
            make_shard=SaidNames,
            record_format=NAMES,
            count_stored=self.stored.update,
            awake_clock=AwakeClock(clock),
            clock=clock,
            counts=CoordinatorCounts(),
            load_permits=asyncio.Semaphore(1),
            load_bytes_max=1 << 20,
            batch_bytes_max=1 << 20,
            commit_timeout_s=10,
            on_sequence_lost=lambda: None,
            on_epoch_seen=lambda _: None,
        )

    async def own(self) -> ShardRuntime[SaidNames]:
        self._epoch += 1
        shard_log = RemoteShardLog(
            SHARD,
            ShardProducer(7, self._epoch),
            is_owner=lambda: True,
            leader=lambda: self._service.stream_of(1),
        )
        runtime = ShardRuntime(shard_log, self._surroundings)
        runtime.start()
        await eventually_async(lambda: runtime.status.value == "serving", "the shard is served")
        return runtime

    async def say(self, runtime: ShardRuntime[SaidNames], name: str) -> int:
        self._tokens += 1
        waiting = Waiting(Saying(self._tokens, name))
        runtime.submit(waiting)  # type: ignore[arg-type]
        count: int = await waiting.answered
        return count


@pytest.fixture
async def runtimes() -> AsyncIterator[tuple[Runtimes, FakeRelayBroker]]:
    async with AsyncExitStack() as closing:
        service = GroupRelayService(lambda *_: None)
        server = RpcServer()
        address = f"127.0.0.1:{server.bind('127.0.0.1', 0)}"
        add_GroupRelayServicer_to_server(service, server.server)
        await server.start()
        closing.push_async_callback(server.stop)
        closing.push_async_callback(service.close, 1.0)
        broker = FakeRelayBroker(1, BROKER_EPOCH)
        await closing.enter_async_context(broker.connected(address))
        yield Runtimes(service), broker


async def test_what_one_owner_has_stored_the_next_one_replays(runtimes: tuple[Runtimes, FakeRelayBroker]) -> None:
    made, broker = runtimes
    first = await made.own()
    assert [await made.say(first, name) for name in ("Ottla", "Elli", "Ottla")] == [1, 1, 2]
    first.end()

    second = await made.own()
    assert second.shard is not None
    assert second.shard.counts == {"Ottla": 2, "Elli": 1}
    assert not made.stored
    assert await made.say(second, "Ottla") == 3
    assert made.stored == {"Ottla": 1}
    await eventually_async(lambda: second.shard and second.shard.counts["Ottla"] == 0, "the timer had its turn")
    second.end()
    assert list(broker.other_logs) == [SHARD.topic]
    assert broker.other_logs[SHARD.topic].keys() == {SHARD.partition}
