"""A copier with aiokafka; `python -m tests.compat.exactly_once.aiokafka_copier SPEC`.

aiokafka does not ask for stable offsets (KIP-447), so after a rebalance it may begin before a commit that is not
completed yet. Its partitions are assigned by hand, and it asks for its offsets once, after its producer has begun,
which completes what came before.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced

from tests.compat.exactly_once.copier_program import (
    BATCH_RECORDS_MAX,
    CALL_DEADLINE_S,
    READ_S,
    TRANSACTION_TIMEOUT_MS,
    CopierSpec,
    Copy,
    Fenced,
    run_copier,
)


class AioKafkaCopier:
    """An AIOKafkaConsumer and an AIOKafkaProducer in an event loop of their own."""

    def __init__(self, spec: CopierSpec):
        self._spec = spec
        self._loop = asyncio.new_event_loop()
        self._partitions = [TopicPartition(spec.source, number) for number in range(spec.partitions)]
        self._consumer: Any = None
        self._producer: Any = None
        try:
            self._run(self._start())
        except BaseException:
            self.close()
            raise

    def read(self) -> list[Copy]:
        found = self._run(self._consumer.getmany(timeout_ms=int(READ_S * 1000), max_records=BATCH_RECORDS_MAX))
        return [Copy(each.partition, each.offset, each.key, each.value) for those in found.values() for each in those]

    def write(self, copies: list[Copy], offsets: dict[int, int]) -> None:
        self._run(self._write(copies, offsets))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._abort())

    def close(self) -> None:
        for client in (self._consumer, self._producer):
            if client is not None:
                with suppress(Exception):  # it is given up in any case
                    self._run(client.stop())
        self._loop.close()

    async def _start(self) -> None:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=self._spec.bootstrap,
            transactional_id=self._spec.name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            linger_ms=2,
        )
        await self._producer.start()
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=self._spec.bootstrap,
            group_id=self._spec.name,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        self._consumer.assign(self._partitions)
        await self._consumer.start()

    async def _write(self, copies: list[Copy], offsets: dict[int, int]) -> None:
        await self._producer.begin_transaction()
        sent = [
            await self._producer.send(self._spec.sink, each.value, each.key, partition=each.partition)
            for each in copies
        ]
        await asyncio.gather(*sent)
        await self._producer.send_offsets_to_transaction(
            {TopicPartition(self._spec.source, partition): offset for partition, offset in offsets.items()},
            self._spec.name,
        )

    async def _abort(self) -> None:
        await self._producer.abort_transaction()
        for partition in self._partitions:
            self._consumer.seek(partition, await self._consumer.committed(partition) or 0)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self._loop.run_until_complete(asyncio.wait_for(work, CALL_DEADLINE_S))
        except ProducerFenced as error:
            raise Fenced from error


if __name__ == "__main__":
    run_copier(AioKafkaCopier)
