"""A copier with confluent-kafka; `python -m tests.compat.exactly_once.confluent_copier SPEC`."""

import time
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.compat.exactly_once.copier_program import (
    BATCH_RECORDS_MAX,
    CALL_DEADLINE_S,
    HEARTBEAT_INTERVAL_MS,
    READ_S,
    SESSION_TIMEOUT_MS,
    TRANSACTION_TIMEOUT_MS,
    CopierSpec,
    Copy,
    Fenced,
    run_copier,
)
from tests.compat.exactly_once.records import COMMON


class ConfluentCopier:
    """librdkafka's consumer, as a member of a group, and producer."""

    def __init__(self, spec: CopierSpec):
        self._spec = spec
        common = {**COMMON, "bootstrap.servers": spec.bootstrap}
        self._producer = Producer(
            {
                **common,
                "transactional.id": spec.name,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "linger.ms": 2,
            }
        )
        self._again(lambda: self._producer.init_transactions(CALL_DEADLINE_S))
        self._consumer = Consumer(
            {
                **common,
                "group.id": spec.name,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
            }
        )
        self._consumer.subscribe([spec.source])

    def read(self) -> list[Copy]:
        copies = []
        for message in self._consumer.consume(BATCH_RECORDS_MAX, READ_S):
            if error := message.error():
                if error.fatal():
                    raise KafkaException(error)
                continue
            key, value, partition, offset = message.key(), message.value(), message.partition(), message.offset()
            assert isinstance(key, bytes)
            assert isinstance(value, bytes)
            assert partition is not None
            assert offset is not None
            copies.append(Copy(partition, offset, key, value))
        return copies

    def write(self, copies: list[Copy], offsets: dict[int, int]) -> None:
        self._producer.begin_transaction()
        for each in copies:
            self._producer.produce(self._spec.sink, each.value, each.key, partition=each.partition)
        wanted = [TopicPartition(self._spec.source, partition, offset) for partition, offset in offsets.items()]
        self._again(
            lambda: self._producer.send_offsets_to_transaction(
                wanted, self._consumer.consumer_group_metadata(), CALL_DEADLINE_S
            )
        )

    def commit(self) -> None:
        self._again(lambda: self._producer.commit_transaction(CALL_DEADLINE_S))

    def abort(self) -> None:
        self._again(lambda: self._producer.abort_transaction(CALL_DEADLINE_S))
        assigned = self._consumer.assignment()
        for partition in self._consumer.committed(assigned, CALL_DEADLINE_S):
            if partition.error:
                raise KafkaException(partition.error)
            self._consumer.seek(
                TopicPartition(partition.topic, partition.partition, max(partition.offset, 0)),
            )

    def close(self) -> None:
        with suppress(KafkaException, AttributeError):
            self._consumer.close()
        self._producer.purge()

    def _again(self, call: Callable[[], None]) -> None:
        """Call until it succeeds, or fails for another reason than that it is to be called again.

        Raises:
            Fenced: another producer has the transactional id.
            KafkaException: new clients are needed.
        """
        deadline_s = time.monotonic() + CALL_DEADLINE_S
        while True:
            try:
                call()
            except KafkaException as failed:
                error = failed.args[0]
                if error.code() in {KafkaError._FENCED, KafkaError.PRODUCER_FENCED}:
                    raise Fenced from failed
                if not error.retriable() or time.monotonic() > deadline_s:
                    raise
            else:
                return


if __name__ == "__main__":
    run_copier(ConfluentCopier)
