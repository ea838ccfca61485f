"""A worker of an ETL with aiokafka; `python -m tests.compat.etl.aiokafka_worker SPEC`.

aiokafka rebalances in the background, so its partitions are given up only when the batch in hand is committed: that
is what its listener is for. The event loop runs while the worker reads, writes or commits, which is nearly always.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition

from tests.compat.etl.worker_program import (
    BATCH_RECORDS_MAX,
    DELIVERY_DEADLINE_S,
    HEARTBEAT_INTERVAL_MS,
    READ_S,
    SESSION_TIMEOUT_MS,
    Notes,
    Record,
    Result,
    WorkerSpec,
    run_worker,
)

COMMIT_DEADLINE_S = 30.0


class Listener(ConsumerRebalanceListener):  # type: ignore[misc] # the library has no types
    """Notes what is assigned and taken, and lets the batch in hand be committed first."""

    def __init__(self, notes: Notes, is_idle: asyncio.Event):
        self._notes = notes
        self._is_idle = is_idle

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._notes.partitions("assigned", _numbers(assigned))

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SESSION_TIMEOUT_MS / 1000):
                await self._is_idle.wait()
        self._notes.partitions("revoked", _numbers(revoked))


class AioKafkaEtl:
    """An AIOKafkaConsumer and an AIOKafkaProducer in an event loop of their own."""

    def __init__(self, spec: WorkerSpec, notes: Notes):
        self._spec = spec
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._loop = asyncio.new_event_loop()
        self._consumer: Any = None
        self._producer: Any = None
        self._loop.run_until_complete(self._start(notes))

    def read(self) -> list[Record]:
        return self._loop.run_until_complete(self._read())

    def publish(self, results: list[Result]) -> None:
        self._loop.run_until_complete(self._publish(results))

    def commit(self, offsets: dict[int, int]) -> None:
        try:
            self._loop.run_until_complete(self._commit(offsets))
        finally:
            self._is_idle.set()

    def close(self) -> None:
        self._is_idle.set()
        self._loop.run_until_complete(self._stop())
        self._loop.close()

    async def _start(self, notes: Notes) -> None:
        common = {"bootstrap_servers": self._spec.bootstrap, "client_id": self._spec.worker}
        self._consumer = AIOKafkaConsumer(
            **common,
            group_id=self._spec.group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        self._producer = AIOKafkaProducer(**common, acks="all", enable_idempotence=True, linger_ms=2)
        self._consumer.subscribe(topics=[self._spec.source], listener=Listener(notes, self._is_idle))
        await self._producer.start()
        await self._consumer.start()

    async def _read(self) -> list[Record]:
        fetched = await self._consumer.getmany(timeout_ms=int(READ_S * 1000), max_records=BATCH_RECORDS_MAX)
        records = [
            Record(each.partition, each.offset, each.value.decode()) for those in fetched.values() for each in those
        ]
        if records:
            self._is_idle.clear()
        return records

    async def _publish(self, results: list[Result]) -> None:
        sent = [
            await self._producer.send(self._spec.sink, value=result.value.encode(), partition=result.partition)
            for result in results
        ]
        async with asyncio.timeout(2 * DELIVERY_DEADLINE_S):
            await asyncio.gather(*sent)

    async def _commit(self, offsets: dict[int, int]) -> None:
        async with asyncio.timeout(COMMIT_DEADLINE_S):
            await self._consumer.commit(
                {TopicPartition(self._spec.source, partition): offset for partition, offset in offsets.items()}
            )

    async def _stop(self) -> None:
        with contextlib.suppress(Exception):  # it is given up in any case
            async with asyncio.timeout(DELIVERY_DEADLINE_S):
                await self._consumer.stop()
        with contextlib.suppress(Exception):
            async with asyncio.timeout(DELIVERY_DEADLINE_S):
                await self._producer.stop()


def _numbers(partitions: Iterable[Any]) -> list[int]:
    return [each.partition for each in partitions]


if __name__ == "__main__":
    run_worker(AioKafkaEtl)
