"""Topics with everything that a mirror has to bring along, and what an independent reader finds in them."""

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from ottla_core.wire.compression import Codec
from ottla_core.wire.records import Record, encode_batch
from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import produce_request, produced
from tests.support.clusters.ottla_command import Ottla

TIMESTAMP_MS = 1_700_000_000_000
KEPT = ("--config", "retention.ms=-1")
"""Else brokers would remove what has such old timestamps."""
BATCHES = 8
RECORDS_PER_BATCH = 25
PARTITIONS = 2
READ_WITHIN_S = 60.0
READ_AT_ONCE_S = 0.5
CODEC_TOPICS = {codec: f"content-{codec.name.lower()}" for codec in Codec}
COMPACTED = "content-compacted"
APPEND_TIME = "content-append-time"
TRANSACTIONS = "content-transactions"

ReadRecord = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], tuple[int, int]]
"""Key, value, headers, timestamp with its type."""


def records(first: int, count: int, *, keys: int | None = None) -> list[Record]:
    """Numbered records among which are null and empty keys and values, and headers twice, null and empty."""
    found = []
    for number in range(first, first + count):
        key = b"key-%d" % (number % keys) if keys else (None, b"", b"key-%d" % number)[number % 3]
        value = (None, b"", b"value-%d" % number, b"x" * (number % 300))[number % 4]
        headers = ((), (("h", b"%d" % number), ("h", None)), (("empty", b""),))[number % 3]
        found.append(Record(number - first, TIMESTAMP_MS + 7 * number, key, value, headers))
    return found


def fill(bootstrap: str) -> None:
    """Make the topics in a cluster with a single broker, and fill them but for the transactions."""
    command = Ottla(bootstrap)
    command.run("topic", "create", *CODEC_TOPICS.values(), "--partitions", str(PARTITIONS), *KEPT)
    command.run("topic", "create", COMPACTED, "--config", "cleanup.policy=compact", *KEPT)
    command.run("topic", "create", APPEND_TIME, "--config", "message.timestamp.type=LogAppendTime", *KEPT)
    with RawClient.to(bootstrap) as client:
        for codec, topic in CODEC_TOPICS.items():
            for partition in range(PARTITIONS):
                publish(client, topic, codec, partition=partition)
        publish(client, COMPACTED, Codec.LZ4, keys=17)
        publish(client, APPEND_TIME, Codec.ZSTD)


def publish(client: RawClient, topic: str, codec: Codec, *, partition: int = 0, keys: int | None = None) -> None:
    """Publishes batches; of a compacted topic all have a key."""
    for number in range(BATCHES):
        some = records(number * RECORDS_PER_BATCH, RECORDS_PER_BATCH, keys=keys)
        batch = encode_batch(some, codec=codec)
        answer = produced(client.ask(produce_request(topic, batch, partition=partition)))
        assert answer.error_code == 0, answer


ALL_TOPICS = (*CODEC_TOPICS.values(), COMPACTED, APPEND_TIME)
"""What `fill` makes."""


def fill_with_transactions(bootstrap: str) -> None:
    """Make a topic in which some transactions are aborted, and some records belong to none."""
    Ottla(bootstrap).run("topic", "create", TRANSACTIONS)
    plain = Producer({"bootstrap.servers": bootstrap})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "content", "compression.type": "lz4"})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        for n in range(10):
            producer.produce(TRANSACTIONS, b"transaction-%d-%d" % (number, n), partition=0)
        producer.flush(30)
        plain.produce(TRANSACTIONS, b"plain-%d" % number, partition=0)
        assert plain.flush(30) == 0
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


def read(bootstrap: str, topic: str) -> dict[int, list[ReadRecord]]:
    """What librdkafka reads of a topic's committed records, by partition."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "independent",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    found: dict[int, list[ReadRecord]] = {}
    try:
        partitions = consumer.list_topics(topic, timeout=READ_WITHIN_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        ends, deadline_s = 0, time.monotonic() + READ_WITHIN_S
        while ends < len(partitions):
            messages = consumer.consume(1000, READ_AT_ONCE_S)
            assert time.monotonic() < deadline_s, f"{topic}: {found} and no more"
            ends += sum(each.error() is not None for each in messages)
            for each in _records_of(messages):
                found.setdefault(each.partition(), []).append(
                    (each.key(), each.value(), tuple(each.headers() or ()), each.timestamp())
                )
    finally:
        consumer.close()
    return found


def _records_of(messages: Sequence[Any]) -> Iterator[Any]:
    return (each for each in messages if each.error() is None)


def check_copies(source: str, target: str, alias: str, topics: Sequence[str], *, wait_s: int = 90) -> None:
    """Has `ottla mirror verify` compare topics with their copies, and an independent reader as well."""
    verify = ("mirror", "verify", *topics, "--source", source, "--alias", alias, "--wait", str(wait_s), "--json")
    found = json.loads(Ottla(target).run(*verify).stdout)
    assert {each["state"] for each in found} == {"equal"}
    assert {each["topic"] for each in found} == {*topics}
    for topic in topics:
        here, there = read(source, topic), read(target, f"{alias}.{topic}")
        assert here, topic
        if topic == COMPACTED:
            here, there = (_latest(each) for each in (here, there))
        elif topic == APPEND_TIME:
            here, there = (_without_times(each) for each in (here, there))
        assert here == there, topic


def _latest(rows: dict[int, list[ReadRecord]]) -> dict[int, list[ReadRecord]]:
    return {partition: sorted(last_values(each).values(), key=repr) for partition, each in rows.items()}


def _without_times(rows: dict[int, list[ReadRecord]]) -> dict[int, list[ReadRecord]]:
    """Without timestamps, which may be the target's own."""
    return {partition: [(*row[:3], (0, 0)) for row in each] for partition, each in rows.items()}


def last_values(rows: Sequence[ReadRecord]) -> dict[bytes | None, ReadRecord]:
    """The last record of each key, of those that are not deleted."""
    return {key: row for key, row in {row[0]: row for row in rows}.items() if row[1] is not None}
