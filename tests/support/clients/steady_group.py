"""A consumer group that reads a topic and commits all the time, and every error that its members were told.

The members are aiokafka's: librdkafka's can lock up when brokers restart (its issues 5476 and 5586). Each commits
after each batch, and waits for the answer. Errors that the client gets over by itself are none.
"""

import asyncio
import threading
import time
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.errors import CommitFailedError, KafkaError

from tests.support.eventually import eventually

POLL_MS = 200
END_DEADLINE_S = 60.0


class SteadyGroup:
    """Two members of one group, in a thread with an event loop, while it is open.

    Attributes:
        failures: errors of the members, but for commits that a rebalance has overtaken.
        committed: by partition, the highest offset whose commit was answered.
        rebalances: how often partitions were given out.
    """

    def __init__(self, bootstrap: str, topic: str, *, group: str = "steady-group", members: int = 2) -> None:
        self.failures: list[str] = []
        self.committed: dict[int, int] = {}
        self.rebalances = 0
        self._seen: dict[int, list[int]] = {}
        self._commits_s: list[float] = []
        self._bootstrap, self._topic, self._group, self._members = bootstrap, topic, group, members
        self._ending = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="steady group")

    def __enter__(self) -> Self:
        self._thread.start()
        self.wait_for_commits(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join(END_DEADLINE_S)
        assert not self._thread.is_alive(), "the members of the group do not end"

    def wait_for_commits(self, more: int) -> None:
        """Wait until this many further commits are answered."""
        goal = len(self._commits_s) + more
        eventually(lambda: len(self._commits_s) >= goal, f"{more} more commits are answered", within_s=60)

    def longest_pause_s(self) -> float:
        """The longest time without an answered commit."""
        return max(later - earlier for earlier, later in pairwise(self._commits_s))

    def skipped(self) -> list[tuple[int, int]]:
        """Return partition and offset of records that no member has seen, though later ones were."""
        found = []
        for partition, offsets in self._seen.items():
            seen = set(offsets)
            found += [(partition, offset) for offset in range(max(seen) + 1) if offset not in seen]
        return found

    async def _run(self) -> None:
        results = await asyncio.gather(*map(self._member, range(self._members)), return_exceptions=True)
        self.failures += [repr(each) for each in results if each is not None]

    async def _member(self, number: int) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=self._group,
            client_id=f"member-{number}",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            metadata_max_age_ms=1000,
            request_timeout_ms=10_000,
            retry_backoff_ms=50,
            session_timeout_ms=10_000,
            heartbeat_interval_ms=500,
            fetch_max_wait_ms=100,
        )
        consumer.subscribe([self._topic], listener=_Counting(self))
        await consumer.start()
        try:
            while not self._ending.is_set():
                await self._round(consumer)
        finally:
            await consumer.stop()

    async def _round(self, consumer: AIOKafkaConsumer) -> None:
        try:
            batches = await consumer.getmany(timeout_ms=POLL_MS)
            for place, records in batches.items():
                self._seen.setdefault(place.partition, []).extend(record.offset for record in records)
            offsets = {place: records[-1].offset + 1 for place, records in batches.items() if records}
            if offsets:
                await consumer.commit(offsets)
                self._note(offsets)
        except CommitFailedError:
            pass  # the partitions were given to somebody else, who reads again what was not committed
        except KafkaError as error:
            self.failures.append(repr(error))

    def _note(self, offsets: dict[Any, int]) -> None:
        self._commits_s.append(time.monotonic())
        for place, offset in offsets.items():
            self.committed[place.partition] = max(offset, self.committed.get(place.partition, 0))


class _Counting(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    def __init__(self, group: SteadyGroup) -> None:
        self._group = group

    async def on_partitions_revoked(self, revoked: object) -> None:
        pass

    async def on_partitions_assigned(self, assigned: object) -> None:
        self._group.rebalances += 1
