"""What every client with transactions must be able to do, written once, and Python's clients.

The cases are commit, abort, fencing, time-out, and consume-transform-produce.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Protocol

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition
from kafka.structs import OffsetAndMetadata

from tests.conftest import TopicFactory
from tests.support.clusters.ottla_command import Ottla
from tests.support.eventually import eventually

WITHIN_S = 60.0
LONG_MS = 60_000
_numbers = count()


class TransactionalProducer(Protocol):
    """A client's producer with a transactional id."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        """Write a record in it."""

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        """Commit in it how far a group has come in the topic's first partition."""

    def commit(self) -> None:
        """Commit it."""

    def abort(self) -> None:
        """Abort it."""

    def close(self) -> None:
        """Let go of everything."""


class ConfluentProducer:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = LONG_MS) -> None:
        self._bootstrap = bootstrap
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
            }
        )
        self._producer.init_transactions(WITHIN_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._producer.produce(topic, value, partition=partition)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        try:
            self._producer.send_offsets_to_transaction(
                [TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), WITHIN_S
            )
        finally:
            consumer.close()

    def commit(self) -> None:
        self._producer.commit_transaction(WITHIN_S)

    def abort(self) -> None:
        self._producer.abort_transaction(WITHIN_S)

    def close(self) -> None:
        with suppress(Exception):
            self._producer.purge()


class KafkaPythonProducer:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = LONG_MS) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._producer.send(topic, value, partition=partition)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        offsets = {PythonTopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}
        self._producer.send_offsets_to_transaction(offsets, group)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        with suppress(Exception):
            self._producer.close(timeout=5)


class AiokafkaProducer:
    """Its event loop runs while something is asked of it."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = LONG_MS) -> None:
        self._loop = asyncio.new_event_loop()

        async def start() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
            )
            await producer.start()
            return producer

        self._producer = self._run(start())

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(work, WITHIN_S))

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._run(self._producer.send_and_wait(topic, value, partition=partition))

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        self._run(self._producer.send_offsets_to_transaction({AioTopicPartition(topic, 0): offset}, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        with suppress(Exception):
            self._run(self._producer.stop())
        self._loop.close()


MakeProducer = Callable[..., TransactionalProducer]
PRODUCERS: Mapping[str, MakeProducer] = {
    "confluent-kafka": ConfluentProducer,
    "kafka-python": KafkaPythonProducer,
    "aiokafka": AiokafkaProducer,
}


def read_with_confluent_kafka(bootstrap: str, topic: str) -> list[bytes]:
    settings = {
        "bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }  # fmt: skip
    consumer = Consumer(settings)
    values: list[bytes] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error():
                return values
            if message is not None:
                values.append(message.value())
    finally:
        consumer.close()
    raise AssertionError(f"the consumer does not come to the end of {topic}: {values}")


def read_with_kafka_python(bootstrap: str, topic: str) -> list[bytes]:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        consumer_timeout_ms=3000,
        auto_offset_reset="earliest",
    )
    try:
        partition = PythonTopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        return [each.value for each in consumer]
    finally:
        consumer.close()


def read_with_aiokafka(bootstrap: str, topic: str) -> list[bytes]:
    async def read() -> list[bytes]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
        await consumer.start()
        try:
            partition = AioTopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            values: list[bytes] = []
            while found := await consumer.getmany(timeout_ms=3000):
                values += [each.value for each in found.get(partition, ())]
            return values
        finally:
            await consumer.stop()

    return asyncio.run(read())


READERS = [read_with_confluent_kafka, read_with_kafka_python, read_with_aiokafka]


def new_id() -> str:
    return f"transactions-{next(_numbers)}-{time.time_ns()}"


def every_client_sees_what_was_committed_and_nothing_else(
    make: MakeProducer, bootstrap: str, new_topic: TopicFactory
) -> None:
    topic, producer = new_topic(partitions=2), make(new_id())
    for number in range(6):
        producer.begin()
        for part in range(3):
            producer.send(topic, b"%d-%d" % (number, part))
        producer.send(topic, b"elsewhere", partition=1)
        if number % 2:
            producer.abort()
        else:
            producer.commit()
    wanted = [b"%d-%d" % (number, part) for number in (0, 2, 4) for part in range(3)]
    for read in READERS:
        eventually(lambda read=read: read(bootstrap, topic) == wanted, f"{read.__name__} sees it", within_s=30)  # type: ignore[misc]


def a_second_producer_with_the_same_id_keeps_the_first_one_out(
    make: MakeProducer, bootstrap: str, new_topic: TopicFactory
) -> None:
    topic, transactional_id = new_topic(), new_id()
    first = make(transactional_id)
    first.begin()
    first.send(topic, b"first")
    second = make(transactional_id)
    with pytest.raises(Exception, match=r"(?i)fenced|fatal|epoch|newer"):  # noqa: PT012 - any of both may be what tells
        first.send(topic, b"zombie")
        first.commit()
    second.begin()
    second.send(topic, b"second")
    second.commit()
    eventually(lambda: read_with_confluent_kafka(bootstrap, topic) == [b"second"], "only the second is seen")


def a_transaction_that_takes_too_long_is_aborted(make: MakeProducer, bootstrap: str, new_topic: TopicFactory) -> None:
    topic, transactional_id, ottla = new_topic(), new_id(), Ottla(bootstrap)
    slow = make(transactional_id, timeout_ms=1500)
    slow.begin()
    slow.send(topic, b"slow")

    def state() -> str:
        (told,) = ottla.json("transaction", "describe", transactional_id)
        return str(told["state"])

    begun = {"Ongoing", "PrepareAbort", "CompleteAbort"}  # it may be over before anybody has looked
    eventually(lambda: state() in begun, "the transaction has begun")
    eventually(lambda: state() == "CompleteAbort", "it has timed out", within_s=30)
    with pytest.raises(Exception):  # noqa: B017, PT011 - clients have words of their own
        slow.commit()
    eventually(lambda: read_with_confluent_kafka(bootstrap, topic) == [], "nothing is seen, and nothing waited for")


def a_groups_offset_counts_with_the_records_that_were_made_of_its_input(
    make: MakeProducer, bootstrap: str, new_topic: TopicFactory
) -> None:
    source, target, group = new_topic(), new_topic(), f"group-{next(_numbers)}-{time.time_ns()}"
    producer = make(new_id())

    def offset() -> int:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        try:
            (told,) = consumer.committed([TopicPartition(source, 0)], WITHIN_S)
            return int(told.offset)
        finally:
            consumer.close()

    for number, commits in enumerate((True, False, True), start=1):
        producer.begin()
        producer.send(target, b"%d" % number)
        producer.send_offset(group, source, number)
        if commits:
            producer.commit()
        else:
            producer.abort()
        wanted = number if commits else number - 1
        eventually(lambda wanted=wanted: offset() == wanted, f"the group is at {wanted}", within_s=30)  # type: ignore[misc]
    eventually(lambda: read_with_confluent_kafka(bootstrap, target) == [b"1", b"3"], "both are seen")


Case = Callable[[MakeProducer, str, TopicFactory], None]
CASES: tuple[Case, ...] = (
    every_client_sees_what_was_committed_and_nothing_else,
    a_second_producer_with_the_same_id_keeps_the_first_one_out,
    a_transaction_that_takes_too_long_is_aborted,
    a_groups_offset_counts_with_the_records_that_were_made_of_its_input,
)


def case_name(case: Case) -> str:
    """The name of a case for the test's name."""
    return case.__name__
