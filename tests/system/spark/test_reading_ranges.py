"""What a task of Spark does, without Spark: it reads a range to its end, whatever the topic and the broker do."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.streaming.datasource import ReadMaxRows

from ottla_spark.datasource import cluster_offsets, consumers, range_reading
from ottla_spark.datasource.batch_reader import OttlaBatchReader
from ottla_spark.datasource.cluster_offsets import ClusterOffsets
from ottla_spark.datasource.columns import arrow_schema
from ottla_spark.datasource.consumers import ConsumerPool
from ottla_spark.datasource.errors import ClusterUnreachable, DataLost, ReadFailed
from ottla_spark.datasource.options import read_options
from ottla_spark.datasource.range_reading import ReadingRules, read_range
from ottla_spark.datasource.ranges import OffsetRange
from ottla_spark.datasource.stream_reader import OttlaStreamReader
from tests.support.clusters.broker_under_test import make_anew, make_topic
from tests.support.clusters.service_process import BrokerProcess, SingleBrokerServices
from tests.support.eventually import eventually
from tests.support.free_ports import free_ports

QUICKLY_COMPACTED = {"log.cleaner.backoff.ms": "50", "log.retention.check.interval.ms": "100"}


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that compacts at once and may be killed."""
    with SingleBrokerServices(tmp_path_factory.mktemp("own"), broker_settings=QUICKLY_COMPACTED) as services:
        yield services.broker


def rules(bootstrap: str, *, poll_timeout_ms: int = 60_000, loss_fails: bool = True) -> ReadingRules:
    return ReadingRules(
        consumer_settings={"bootstrap.servers": bootstrap, "group.id": "unused"},
        admin_settings={"bootstrap.servers": bootstrap},
        include_headers=False,
        poll_timeout_ms=poll_timeout_ms,
        fail_on_data_loss=loss_fails,
    )


def write(bootstrap: str, topic: str, count: int, *, keys: int, value_bytes: int = 100) -> None:
    failures: list[str] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.num.messages": 50},  # fits into the smallest segment
        on_delivery=lambda error, _: failures.append(str(error)) if error else None,
    )
    for number in range(count):
        producer.produce(topic, b"%d " % number + bytes(value_bytes), b"%d" % (number % keys), partition=0)
    assert producer.flush(60) == 0
    assert failures == []


def offsets_of(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def kept_offsets(bootstrap: str, topic: str, end: int) -> list[int]:
    """Return the offsets of the records that a plain consumer gets."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "x", "enable.partition.eof": True, "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    offsets: list[int] = []
    try:
        while (message := consumer.poll(10)) is not None and message.error() is None:
            offsets.append(message.offset() or 0)
    finally:
        consumer.close()
    assert offsets[-1] < end
    return offsets


def test_ranges_of_a_compacted_topic_end_although_their_last_offsets_have_no_record(
    own_broker: BrokerProcess,
) -> None:
    compacted = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.01"}
    topic = make_topic(own_broker.bootstrap, configs={**compacted, "file.delete.delay.ms": "0"})
    write(own_broker.bootstrap, topic, 3000, keys=7, value_bytes=1000)
    kept = eventually(
        lambda: found if len(found := kept_offsets(own_broker.bootstrap, topic, 3000)) < 1500 else None,
        "the topic is compacted",
        within_s=120,
    )
    bounds = [0, 10, 700, 1400, kept[-1], 3000]
    for start, end in pairwise(bounds):
        wanted = OffsetRange(topic, 0, start, end)
        found = offsets_of(read_range(wanted, rules(own_broker.bootstrap)))
        assert found == sorted(set(found))
        assert set(found) <= set(range(start, end))
        assert set(found) >= {
            offset for offset in kept_offsets(own_broker.bootstrap, topic, 3000) if start <= offset < end
        }


def test_a_range_is_read_whole_although_the_broker_is_killed_in_the_middle(own_broker: BrokerProcess) -> None:
    topic = make_topic(own_broker.bootstrap)
    write(own_broker.bootstrap, topic, 30_000, keys=100, value_bytes=2000)  # more than is read ahead
    batches = read_range(OffsetRange(topic, 0, 5, 29_990), rules(own_broker.bootstrap))
    first = next(batches)
    own_broker.kill()
    second = next(batches)
    own_broker.start()
    assert first.schema == arrow_schema(with_headers=False)
    assert offsets_of(iter([first, second, *batches])) == [*range(5, 29_990)]


def test_a_broker_that_stays_away_fails_the_read_in_time_and_says_where_it_was(own_broker: BrokerProcess) -> None:
    topic = make_topic(own_broker.bootstrap)
    write(own_broker.bootstrap, topic, 10, keys=1)
    assert offsets_of(read_range(OffsetRange(topic, 0, 0, 10), rules(own_broker.bootstrap))) == [*range(10)]
    (nobody,) = free_ports(1)
    with pytest.raises(
        ReadFailed, match=f"offsets 3 to 10 of partition 0 of topic {topic} at offset 3: nothing came"
    ):
        offsets_of(read_range(OffsetRange(topic, 0, 3, 10), rules(f"127.0.0.1:{nobody}", poll_timeout_ms=300)))


def test_a_topic_that_is_deleted_meanwhile_is_known_long_before_the_time_to_wait_is_over(
    own_broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_reading, "QUIET_MAX_S", 0.2)
    monkeypatch.setattr(range_reading, "DOUBT_MAX_S", 0.2)
    topic = make_topic(own_broker.bootstrap)
    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap})
    (deleted,) = admin.delete_topics([topic]).values()
    deleted.result(30)
    with pytest.raises(DataLost, match="the partition is gone"):
        offsets_of(read_range(OffsetRange(topic, 0, 0, 10), rules(own_broker.bootstrap)))
    assert offsets_of(read_range(OffsetRange(topic, 0, 0, 10), rules(own_broker.bootstrap, loss_fails=False))) == []


def test_a_topic_that_is_created_anew_between_plan_and_read_is_a_loss_of_data(
    own_broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_reading, "IDENTITY_PAUSE_S", 0.05)
    topic = make_topic(own_broker.bootstrap)
    write(own_broker.bootstrap, topic, 10, keys=1)
    settings = {
        "kafka.bootstrap.servers": own_broker.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "fetchOffset.retryIntervalMs": "50",
    }
    reader = OttlaStreamReader(read_options(settings, kind="stream"))
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    (planned,) = (each.value for each in reader.partitions(start, end))
    assert offsets_of(read_range(planned, rules(own_broker.bootstrap))) == [*range(10)]

    make_anew(own_broker.bootstrap, topic)
    write(own_broker.bootstrap, topic, 10, keys=1)
    with pytest.raises(DataLost, match=f"topic {topic} was deleted and created again before a batch"):
        reader.partitions(start, end)
    with pytest.raises(DataLost, match="the topic was deleted and created again meanwhile"):
        offsets_of(read_range(planned, rules(own_broker.bootstrap)))
    heedless = OttlaStreamReader(read_options({**settings, "failOnDataLoss": "false"}, kind="stream"))
    assert heedless.partitions(start, end) == []
    again = [
        replace(each.value, topic_id="")
        for each in heedless.partitions(end, heedless.latestOffset(end, heedless.getDefaultReadLimit()))
    ]
    assert again == [OffsetRange(topic, 0, 0, 10)]
    for each in (reader, heedless):
        each.stop()


def test_records_of_a_topic_that_is_created_anew_within_a_range_are_left_to_the_next_batch(
    own_broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_reading, "IDENTITY_PAUSE_S", 0.05)
    monkeypatch.setattr(range_reading, "BatchSize", lambda: SimpleNamespace(count=5, learn=lambda **_: None))
    topic = make_topic(own_broker.bootstrap)
    write(own_broker.bootstrap, topic, 20, keys=1)
    settings = {
        "kafka.bootstrap.servers": own_broker.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "failOnDataLoss": "false",
    }
    reader = OttlaStreamReader(read_options(settings, kind="stream"))
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    (planned,) = reader.partitions(start, end)
    batches = reader.read(planned)
    read = [*next(batches).column("offset").to_pylist()]
    assert read == [*range(5)]
    make_anew(own_broker.bootstrap, topic)
    write(own_broker.bootstrap, topic, 30, keys=1)
    assert list(batches) == []
    following = reader.latestOffset(end, reader.getDefaultReadLimit())
    again = [each.value for each in reader.partitions(end, following)]
    assert [(each.start, each.end) for each in again] == [(0, 30)]
    reader.stop()


def test_a_query_that_has_come_to_its_end_has_committed_it_before_it_is_stopped(bootstrap: str) -> None:
    topic = make_topic(bootstrap)
    write(bootstrap, topic, 10, keys=1)
    settings = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "commitGroupId": topic,
    }
    reader = OttlaStreamReader(read_options(settings, kind="stream"))
    try:
        reader.prepareForTriggerAvailableNow()
        position = reader.initialOffset()
        for limit in (4, 4, 4):
            position = reader.latestOffset(position, ReadMaxRows(limit))
            reader.commit(position)  # the first commit takes longer than the next batches
        assert reader.latestOffset(position, ReadMaxRows(4)) == position

        admin = AdminClient({"bootstrap.servers": bootstrap})
        (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(topic)]).values()
        assert [each.offset for each in future.result(30).topic_partitions] == [10]
    finally:
        reader.stop()


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_a_first_batch_that_is_repeated_does_not_mistake_new_partitions_for_lost_ones(
    own_broker: BrokerProcess, starting: str
) -> None:
    topic = make_topic(own_broker.bootstrap)
    write(own_broker.bootstrap, topic, 10, keys=1)
    settings = {
        "kafka.bootstrap.servers": own_broker.bootstrap,
        "subscribe": topic,
        "startingOffsets": starting,
    }
    before = OttlaStreamReader(read_options(settings, kind="stream"))
    end = before.latestOffset(before.initialOffset(), before.getDefaultReadLimit())
    before.stop()

    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap})
    (created,) = admin.create_partitions([NewPartitions(topic, 2)]).values()
    created.result(30)
    write(own_broker.bootstrap, topic, 10, keys=1)
    after = OttlaStreamReader(read_options(settings, kind="stream"))  # as Spark does it after a crash
    eventually(lambda: "1" in after.initialOffset()[topic], "there are two partitions")
    again = [replace(each.value, topic_id="") for each in after.partitions(after.initialOffset(), end)]
    assert again == ([OffsetRange(topic, 0, 0, 10)] if starting == "earliest" else [])
    following = after.latestOffset(end, after.getDefaultReadLimit())
    assert following[topic]["1"] == 0
    after.stop()


def test_conditions_leave_out_ranges_without_records_that_fulfil_them(bootstrap: str) -> None:
    topic = make_topic(bootstrap, partitions=2)
    times = {0: [1000, 3000, 2000, 1500, 4000], 1: [500, 900]}  # in the order in which they were written
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition, each in times.items():
        for time_ms in each:
            producer.produce(topic, b"value", partition=partition, timestamp=time_ms)
    assert producer.flush(30) == 0

    def read(filters: str, **options: str) -> list[tuple[int, int]]:
        settings = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "recordFilters": filters, **options}
        reader = OttlaBatchReader(read_options(settings, kind="batch"))
        found = []
        for planned in reader.partitions():
            for batch in reader.read(planned):
                found += list(
                    zip(batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), strict=True)
                )
                if options:
                    assert batch.column("value").null_count == batch.num_rows
        return found

    assert read("[]") == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (1, 1)]
    assert read('[["timestamp", ">=", 2000]]') == [(0, 1), (0, 2), (0, 3), (0, 4)]
    assert read('[["timestamp", "<", 1000]]') == read("[]"), "a later record may be of an earlier time"
    assert read('[["timestamp", ">", 4000], ["partition", "=", 1]]') == []
    assert read('[["offset", ">", 0], ["offset", "<=", 2]]') == [(0, 1), (0, 2), (1, 1)]
    assert read('[["partition", "=", 1]]', includeContent="false") == [(1, 0), (1, 1)]


def test_a_cluster_that_nobody_answers_for_is_one_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cluster_offsets, "FIRST_ANSWER_MAX_S", 1.0)
    (nobody,) = free_ports(1)
    options = read_options({"kafka.bootstrap.servers": f"127.0.0.1:{nobody}", "subscribe": "flights"}, kind="batch")
    with pytest.raises(ClusterUnreachable, match=f"no broker at 127.0.0.1:{nobody} .* answers: .*Connection refused"):
        ClusterOffsets(options).required()


class HangingConsumer:
    """A consumer that gives nothing and never closes, like one whose threads have locked each other out."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.allowed = threading.Event()

    def assign(self, partitions: list[TopicPartition]) -> None:
        assert not self.calls, "this would hang with Python's lock held"
        self.calls.append("assign")

    def consume(self, count: int, timeout_s: float) -> list[Message]:
        self.allowed.wait(timeout_s)
        return []

    def close(self) -> None:
        self.calls.append("close")
        self.allowed.wait()


def test_a_consumer_that_hangs_is_replaced(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_reading, "QUIET_MAX_S", 0.2)
    monkeypatch.setattr(range_reading, "DOUBT_MAX_S", 0.2)
    monkeypatch.setattr(consumers, "CLOSED_WITHIN_S", 0.1)
    topic = make_topic(bootstrap)
    write(bootstrap, topic, 10, keys=1)
    hanging = HangingConsumer()
    made = iter([hanging])
    monkeypatch.setattr(consumers, "Consumer", lambda settings: next(made, None) or Consumer(settings))
    monkeypatch.setattr(range_reading, "POOL", ConsumerPool())
    try:
        assert offsets_of(read_range(OffsetRange(topic, 0, 0, 10), rules(bootstrap))) == list(range(10))
        assert hanging.calls == ["assign", "close"]
    finally:
        hanging.allowed.set()
