"""A broker process compacts a topic while clients use it, and dies in the middle of it."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.clusters.broker_under_test import make_topic
from tests.support.clusters.service_process import BrokerProcess, SingleBrokerServices
from tests.support.eventually import eventually
from tests.support.machine.process_stat import has_ended

pytestmark = pytest.mark.slow

KEYS = 50
RECORDS = 20_000
RECORDS_PER_CRASH = 6_000
VALUE_BYTES = 1000
CRASHES = int(os.environ.get("OTTLA_TEST_CRASHES", "5"))
SEGMENT_BYTES = 1 << 20
SLOWLY = {
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.io.max.bytes.per.second": "8000000",
    "log.retention.check.interval.ms": "100",
}
"""A round takes long enough to be interrupted."""
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "0",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with SingleBrokerServices(tmp_path, broker_settings=SLOWLY) as services:
        yield services.broker


def write(bootstrap: str, topic: str, table: dict[bytes, bytes], *, first: int, records: int = RECORDS) -> None:
    """Publish records of a few keys, some of them deletions, and keep what a reader has to end up with."""
    failures: list[str] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5},
        on_delivery=lambda error, _: failures.append(str(error)) if error else None,
    )
    for number in range(first, first + records):
        key = b"key-%d" % (number * 7 % KEYS)
        value = None if number % 11 == 0 else b"%d " % number + bytes(VALUE_BYTES)
        while True:
            try:
                producer.produce(topic, value, key, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
        producer.poll(0)
    assert producer.flush(60) == 0
    assert failures == []


def read(bootstrap: str, topic: str) -> tuple[dict[bytes, bytes], list[int]]:
    """Read the topic from its beginning to its end; return the table that this makes, and the offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    table: dict[bytes, bytes] = {}
    offsets = []
    deadline = time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            for message in consumer.consume(5000, 0.5):
                if (error := message.error()) is not None:
                    assert error.name() == "_PARTITION_EOF", error
                    return table, offsets
                key, value = message.key(), message.value()
                assert isinstance(key, bytes)
                offsets.append(message.offset() or 0)
                if value is None:
                    table.pop(key, None)
                else:
                    assert isinstance(value, bytes)
                    table[key] = value
    finally:
        consumer.close()
    raise AssertionError("the end of the topic was not reached")


def size_of(directory: Path) -> int:
    total = 0
    for path in directory.glob("*.log"):
        with suppress(FileNotFoundError):  # it is being replaced
            total += path.stat().st_size
    return total


def cleaning_processes(broker: BrokerProcess) -> list[int]:
    tasks = Path(f"/proc/{broker.process.pid}/task")
    return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]


def all_ended(pids: list[int]) -> bool:
    return all(map(has_ended, pids))


def test_a_compacted_topic_shrinks_and_readers_see_the_last_values(broker: BrokerProcess) -> None:
    topic = make_topic(broker.bootstrap, configs=COMPACTED)
    directory = broker.data / f"{topic}-0"
    table: dict[bytes, bytes] = {}
    write(broker.bootstrap, topic, table, first=0)
    eventually(lambda: size_of(directory) < 3 * SEGMENT_BYTES, "the topic has shrunk", within_s=120)
    found, offsets = read(broker.bootstrap, topic)
    assert found == table
    assert offsets == sorted(set(offsets))
    assert offsets[-1] == RECORDS - 1
    assert len(offsets) < RECORDS / 5
    eventually(
        lambda: f"{topic} 0 " in (broker.data / "cleaner-offset-checkpoint").read_text(), "the checkpoint is written"
    )
    write(broker.bootstrap, topic, table, first=RECORDS, records=3000)
    eventually(lambda: size_of(directory) < 3 * SEGMENT_BYTES, "the topic has shrunk again", within_s=60)
    assert read(broker.bootstrap, topic)[0] == table
    broker.stop()
    broker.start()
    assert read(broker.bootstrap, topic)[0] == table


def test_a_broker_killed_while_it_compacts_loses_nothing_and_goes_on(broker: BrokerProcess) -> None:
    topic = make_topic(broker.bootstrap, configs=COMPACTED)
    directory = broker.data / f"{topic}-0"
    table: dict[bytes, bytes] = {}
    for crash in range(CRASHES):
        write(broker.bootstrap, topic, table, first=crash * RECORDS_PER_CRASH, records=RECORDS_PER_CRASH)
        eventually(lambda: any(directory.glob("*.cleaned")), "a round is under way", within_s=60)
        cleaners = cleaning_processes(broker)
        broker.kill()
        eventually(partial(all_ended, cleaners), "the cleaning process is gone", within_s=10)
        broker.start()
        assert read(broker.bootstrap, topic)[0] == table
    eventually(lambda: size_of(directory) < 3 * SEGMENT_BYTES, "the topic has shrunk", within_s=180)
    found, offsets = read(broker.bootstrap, topic)
    assert found == table
    assert offsets == sorted(set(offsets))
    assert not [path for path in directory.iterdir() if path.suffix in {".cleaned", ".swap"}]


def test_a_stopped_broker_leaves_no_cleaning_process(broker: BrokerProcess) -> None:
    topic = make_topic(broker.bootstrap, configs=COMPACTED)
    write(broker.bootstrap, topic, {}, first=0, records=5000)
    (cleaner,) = eventually(lambda: cleaning_processes(broker), "a round is under way", within_s=60)
    broker.stop()
    assert has_ended(cleaner)
    assert not any((broker.data / f"{topic}-0").glob("*.cleaned"))


def test_a_topic_is_deleted_while_it_is_compacted(broker: BrokerProcess) -> None:
    topic = make_topic(broker.bootstrap, configs=COMPACTED)
    directory = broker.data / f"{topic}-0"
    write(broker.bootstrap, topic, {}, first=0, records=5000)
    eventually(lambda: any(directory.glob("*.cleaned")), "a round is under way", within_s=60)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    eventually(lambda: not list(broker.data.glob(f"{topic}-0*")), "its files are gone", within_s=30)


def test_ctrl_c_at_a_terminal_does_not_reach_the_cleaning_process(broker: BrokerProcess) -> None:
    topic = make_topic(broker.bootstrap, configs=COMPACTED)
    write(broker.bootstrap, topic, {}, first=0, records=5000)
    (cleaner,) = eventually(lambda: cleaning_processes(broker), "a round is under way", within_s=60)
    # A process that has just been forked leaves its parent's group a moment later.
    eventually(lambda: os.getpgid(cleaner) == cleaner, "it has a process group of its own", within_s=10)
