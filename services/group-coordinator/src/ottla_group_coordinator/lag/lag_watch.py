"""Looks every few seconds how far groups are behind, for metrics.

What groups of the shards here have committed is known; where partitions end is asked of the brokers that lead them,
by the streams that these keep open. Work is bounded three times over: by how many offsets are looked at, by slices,
and by pauses that grow with the time that a look has taken.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from ottla_core.clock import Clock
from ottla_core.cluster.state.model import NO_LEADER, ClusterState
from ottla_core.observe.metrics import Labels
from ottla_core.slices import Pace
from ottla_group_coordinator.lag.end_history import EndHistory
from ottla_group_coordinator.lag.group_lags import Committed, GroupLag, LagTotals, PartitionKey
from ottla_group_coordinator.runtime.relay_stream import RelayStream, StreamClosed
from ottla_group_coordinator.runtime.shard_runtime import ShardRuntime
from ottla_group_coordinator.shard import GroupShard
from ottla_proto.gen.ottla import group_relay_pb2 as pb

INTERVAL_S: Final = 5.0
PAUSE_PER_LOOK: Final = 20
"""So many times as long as a look took is the least pause after it."""
OFFSETS_MAX: Final = 200_000
"""Committed offsets that are looked at; the lag of others is not known."""
PARTITIONS_PER_QUESTION: Final = 500
ANSWER_TIMEOUT_S: Final = 5.0
SILENCE_S: Final = 600.0
"""For how long a broker is not asked that has not answered; one of the first release never does."""


class LagWatch:
    """Looks until it is cancelled.

    Args:
        owned: returns the shards here.
        state: returns the cluster's state.
        stream_of: returns a broker's stream, or None.
        clock: tells the time.

    Attributes:
        lags: by group and topic, as of the last look; replaced, never changed.
        left_out: how many committed offsets were not looked at.
    """

    def __init__(
        self,
        owned: Callable[[], Iterable[ShardRuntime[GroupShard]]],
        state: Callable[[], ClusterState],
        stream_of: Callable[[int], RelayStream | None],
        clock: Clock,
    ) -> None:
        self.lags: list[tuple[tuple[str, str], GroupLag]] = []
        self.left_out = 0
        self._owned = owned
        self._state = state
        self._stream_of = stream_of
        self._clock = clock
        self._histories: dict[PartitionKey, EndHistory] = {}
        self._silent_until_s: dict[int, float] = {}

    async def run(self) -> None:
        """Look again and again."""
        while True:
            began_s = self._clock.monotonic()
            await self.look()
            took_s = self._clock.monotonic() - began_s
            await asyncio.sleep(max(INTERVAL_S, PAUSE_PER_LOOK * took_s))

    async def look(self) -> None:
        """Look once."""
        pace = Pace()
        committed: list[Committed] = []
        offset_count = 0
        for each in self._committed():
            offset_count += 1
            if len(committed) < OFFSETS_MAX:
                committed.append(each)
            if pace.is_over:
                await pace.rest()
        self.left_out = offset_count - len(committed)
        wanted = {(each.topic, each.partition) for each in committed}
        self._histories = {key: self._histories.get(key) or EndHistory() for key in wanted}
        await self._ask_for_ends()
        totals = LagTotals()
        now_s = self._clock.monotonic()
        for each in committed:
            history = self._histories[each.topic, each.partition]
            if history.is_known:
                totals.add(each, history, now_s)
            if pace.is_over:
                await pace.rest()
        self.lags = totals.greatest_first()

    def records(self) -> Iterator[tuple[float, Labels]]:
        """Yield the lags in records."""
        return ((lag.records, {"group": group, "topic": topic}) for (group, topic), lag in self.lags)

    def seconds(self) -> Iterator[tuple[float, Labels]]:
        """Yield the lags in seconds."""
        return ((lag.seconds, {"group": group, "topic": topic}) for (group, topic), lag in self.lags)

    def _committed(self) -> Iterator[Committed]:
        """Yield what is committed; what changes while it is looked at counts as before or as after."""
        for runtime in tuple(self._owned()):
            if runtime.shard is None:
                continue
            offsets = runtime.shard.offsets
            for group_id in tuple(offsets.group_ids):
                for (topic, partition), value in tuple(offsets.of_group(group_id).items()):
                    yield Committed(group_id, topic, partition, value.offset)

    async def _ask_for_ends(self) -> None:
        for broker_id, keys in self._by_leader().items():
            stream = self._stream_of(broker_id)
            if stream is None or self._silent_until_s.get(broker_id, 0.0) > self._clock.monotonic():
                continue
            remaining = iter(keys)
            while some := list(islice(remaining, PARTITIONS_PER_QUESTION)):
                if not await self._ask(broker_id, stream, some):
                    break

    def _by_leader(self) -> Mapping[int, list[PartitionKey]]:
        topics = self._state().topics
        found: dict[int, list[PartitionKey]] = {}
        for topic, index in sorted(self._histories):
            known = topics.get(topic)
            if known is None or index >= len(known.partitions):
                continue
            leader = known.partitions[index].leader
            if leader != NO_LEADER:
                found.setdefault(leader, []).append((topic, index))
        return found

    async def _ask(self, broker_id: int, stream: RelayStream, keys: list[PartitionKey]) -> bool:
        """Ask a broker where partitions end; return whether it has answered."""
        topics = self._state().topics
        question = pb.LogEndsQuestion()
        asked: list[PartitionKey] = []
        for topic, index in keys:
            if (known := topics.get(topic)) is None:
                continue
            topic_id = known.id.bytes
            if not question.topics or question.topics[-1].topic_id != topic_id:
                question.topics.add(topic_id=topic_id)
            question.topics[-1].partitions.append(index)
            asked.append((topic, index))
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                answer = await stream.ask_ends(question)
        except StreamClosed:
            return False
        except TimeoutError:
            self._silent_until_s[broker_id] = self._clock.monotonic() + SILENCE_S
            return False
        now_s = self._clock.monotonic()
        for key, end in zip(asked, answer.high_watermarks, strict=False):
            if end >= 0:
                self._histories[key].note(end, now_s)
        return True
