"""What a producer may rely on in Produce: acknowledgements, order, sequences, timestamps, and compression."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from ottla_core.wire.compression import Codec
from ottla_core.wire.record_batch import CRC_OFFSET, RecordBatchHeader, TimestampType, iterate_batches
from ottla_core.wire.records import Record, encode_batch, iterate_records
from tests.conftest import TopicFactory
from tests.support.clients.raw_client import RawClient, decode_response, response_type_of
from tests.support.clients.raw_requests import (
    ALL_IN_SYNC,
    end_offset,
    fetch_request,
    fetched,
    init_producer_id_request,
    produce_request,
    produced,
)
from tests.support.clusters.broker_under_test import BrokerUnderTest, make_topic
from tests.support.clusters.service_process import RestartableBroker, SingleBrokerServices
from tests.support.eventually import eventually
from tests.support.messages.record_batches import TIMESTAMP_MS, batch_of, read_values
from tests.support.messages.sparse_request import sparse_request

PIPELINED = 60
DUPLICATES_RECOGNISED = 5
DAYS_MS = 3 * 24 * 60 * 60 * 1000
"""More than producers are remembered for, and less than records are kept."""
FLUSHED_AT_ONCE = {"flush.messages": "1"}
COMPRESSION_TYPES = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
VARIED_RECORDS = [
    Record(0, TIMESTAMP_MS + 5, b"key", b"compressible " * 200, (("header", b"v"), ("header", None))),
    Record(1, TIMESTAMP_MS, None, None, ()),
    Record(2, TIMESTAMP_MS + 9, b"", b"", ()),
]


def publish(client: RawClient, topic: str, records: bytes, *, acks: int = ALL_IN_SYNC) -> int:
    """Appends one batch that must be accepted, and returns its base offset."""
    answer = produced(client.ask(produce_request(topic, records, acks=acks)))
    assert answer.error_code is ErrorCode.none, answer.error_message
    return int(answer.base_offset)


def stored_batches(client: RawClient, topic: str) -> list[tuple[RecordBatchHeader, bytes]]:
    """Every batch of partition 0, as it stands in the log."""
    return [(header, bytes(batch)) for header, batch in iterate_batches(_everything(client, topic))]


def _everything(client: RawClient, topic: str) -> bytes:
    return bytes(fetched(client.ask(fetch_request(topic, 0))).records or b"")


def batches_on_disk(broker: BrokerUnderTest, topic: str) -> list[tuple[RecordBatchHeader, bytes]]:
    """Every batch in the first segment of partition 0."""
    data = (broker.partition_directory(topic, 0) / f"{0:020}.log").read_bytes()
    return [(header, bytes(batch)) for header, batch in iterate_batches(data)]


# Acknowledgements


@pytest.mark.parametrize("acks", [0, 1, ALL_IN_SYNC])
def test_records_are_stored_whatever_acknowledgement_is_asked_for(
    bootstrap: str, new_topic: TopicFactory, acks: int
) -> None:
    topic, records = new_topic(), batch_of([b"a", b"b"]).encode()
    with RawClient.to(bootstrap) as client:
        if acks:
            assert publish(client, topic, records, acks=acks) == 0
        else:
            client.send_request(produce_request(topic, records, acks=0))
        assert end_offset(client, topic) == 2


def test_min_insync_replicas_asks_for_no_more_replicas_than_there_are(
    bootstrap: str, new_topic: TopicFactory
) -> None:
    topic = new_topic(configs={"min.insync.replicas": "2"})
    with RawClient.to(bootstrap) as client:
        assert publish(client, topic, batch_of([b"a"]).encode()) == 0


# Order


def test_pipelined_produces_are_appended_and_answered_in_order(bootstrap: str, new_topic: TopicFactory) -> None:
    """Some wait for an fsync and some do not; nobody overtakes."""
    flushed, plain = new_topic(configs=FLUSHED_AT_ONCE), new_topic()
    with RawClient.to(bootstrap) as client:
        sent = []
        for number in range(PIPELINED):
            records = batch_of([str(number).encode()]).encode()
            request = produce_request(flushed if number % 3 == 0 else plain, records)
            sent.append((client.send_request(request), request))
        next_offset = {flushed: 0, plain: 0}
        for correlation_id, request in sent:
            answered_id, response = decode_response(client.read_frame(), response_type_of(request))
            assert answered_id == correlation_id
            topic = response.responses[0].name
            assert produced(response).base_offset == next_offset[topic]
            next_offset[topic] += 1
        values = [int(value) for _, value in read_values(_everything(client, plain))]
        assert values == [number for number in range(PIPELINED) if number % 3]


def test_one_bad_partition_does_not_hold_back_the_others(bootstrap: str, new_topic: TopicFactory) -> None:
    topic, other = new_topic(partitions=3), new_topic()
    good = batch_of([b"a"])
    request = sparse_request(
        "produce",
        9,
        acks=ALL_IN_SYNC,
        timeout=10_000,
        topic_data=[
            {
                "name": topic,
                "partition_data": [
                    {"index": 0, "records": good.encode()},
                    {"index": 1, "records": replace(good, crc=1).encode()},
                    {"index": 2, "records": good.encode()},
                    {"index": 99, "records": good.encode()},
                ],
            },
            {"name": "no-such-topic", "partition_data": [{"index": 0, "records": good.encode()}]},
            {"name": other, "partition_data": [{"index": 0, "records": good.encode()}]},
        ],
    )
    with RawClient.to(bootstrap) as client:
        outcomes = {
            (answered.name, partition.index): partition.error_code
            for answered in client.ask(request).responses
            for partition in answered.partition_responses
        }
        assert outcomes == {
            (topic, 0): ErrorCode.none,
            (topic, 1): ErrorCode.corrupt_message,
            (topic, 2): ErrorCode.none,
            (topic, 99): ErrorCode.unknown_topic_or_partition,
            ("no-such-topic", 0): ErrorCode.unknown_topic_or_partition,
            (other, 0): ErrorCode.none,
        }
        assert [end_offset(client, topic, partition=index) for index in range(3)] == [1, 0, 1]


# Idempotent producers


class Sequences:
    """One idempotent producer's batches of two records, by their number.

    Kafka forgets a producer when its last record is a day old, so what is also asked of Kafka has records of now.
    """

    def __init__(self, client: RawClient, *, age_ms: int = 0):
        answer = eventually(lambda: _given_producer_id(client), "a producer id is given out")
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self._record_ms = time.time_ns() // 1_000_000 - age_ms

    def batch(self, number: int, *, epoch: int | None = None) -> bytes:
        return replace(
            batch_of([b"a", b"b"]),
            base_timestamp_ms=self._record_ms,
            max_timestamp_ms=self._record_ms,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=2 * number,
        ).encode()


def _given_producer_id(client: RawClient) -> Any:
    answer = client.ask(init_producer_id_request())
    assert answer.error_code in {ErrorCode.none, ErrorCode.coordinator_load_in_progress}
    return answer if answer.error_code is ErrorCode.none else None


def attempt(client: RawClient, topic: str, records: bytes) -> tuple[ErrorCode, int]:
    answer = produced(client.ask(produce_request(topic, records)))
    return answer.error_code, answer.base_offset


def test_a_repeated_batch_is_stored_once_and_answered_with_its_first_offset(
    bootstrap: str, new_topic: TopicFactory
) -> None:
    topic = new_topic()
    with RawClient.to(bootstrap) as client:
        producer = Sequences(client)
        for number in range(DUPLICATES_RECOGNISED + 1):
            assert publish(client, topic, producer.batch(number)) == 2 * number
        for number in range(1, DUPLICATES_RECOGNISED + 1):
            assert attempt(client, topic, producer.batch(number)) == (ErrorCode.none, 2 * number)
        assert end_offset(client, topic) == 2 * (DUPLICATES_RECOGNISED + 1)


def test_a_batch_that_has_long_been_stored_is_told_to_be_there(bootstrap: str, new_topic: TopicFactory) -> None:
    """Where the leader has moved, a producer may have more batches on the way than the log remembers."""
    topic = new_topic()
    with RawClient.to(bootstrap) as client:
        producer = Sequences(client)
        for number in range(DUPLICATES_RECOGNISED + 3):
            publish(client, topic, producer.batch(number))
        for number in range(3):
            assert attempt(client, topic, producer.batch(number)) == (ErrorCode.duplicate_sequence_number, -1)
        assert end_offset(client, topic) == 2 * (DUPLICATES_RECOGNISED + 3)


def test_a_gap_in_the_sequence_is_refused_and_the_next_in_order_accepted(
    bootstrap: str, new_topic: TopicFactory
) -> None:
    topic = new_topic()
    with RawClient.to(bootstrap) as client:
        producer = Sequences(client)
        publish(client, topic, producer.batch(0))
        code, _ = attempt(client, topic, producer.batch(2))
        assert code is ErrorCode.out_of_order_sequence_number
        assert publish(client, topic, producer.batch(1)) == 2
        assert publish(client, topic, producer.batch(2)) == 4


def test_an_older_producer_epoch_is_refused_and_a_newer_begins_again(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic()
    with RawClient.to(bootstrap) as client:
        producer = Sequences(client)
        publish(client, topic, producer.batch(0))
        code, _ = attempt(client, topic, producer.batch(1, epoch=producer.epoch + 1))
        assert code is ErrorCode.out_of_order_sequence_number, "a new epoch begins at sequence 0"
        assert publish(client, topic, producer.batch(0, epoch=producer.epoch + 1)) == 2
        code, _ = attempt(client, topic, producer.batch(1))
        assert code is ErrorCode.invalid_producer_epoch


@pytest.mark.slow
@pytest.mark.parametrize("age_ms", [0, DAYS_MS], ids=["new records", "old records"])
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_duplicates_and_gaps_are_recognised_over_a_restart(
    restartable_broker: RestartableBroker, end: str, age_ms: int
) -> None:
    """Of the last batch at least: Kafka's snapshots, which a clean stop leaves, hold no more of a producer."""
    topic = make_topic(restartable_broker.bootstrap)
    with RawClient.to(restartable_broker.bootstrap) as client:
        producer = Sequences(client, age_ms=age_ms)
        for number in range(3):
            publish(client, topic, producer.batch(number))
    getattr(restartable_broker, end)()
    restartable_broker.start()
    with RawClient.to(restartable_broker.bootstrap) as client:
        eventually(_is_led(client, topic), f"{topic} is led again")
        assert attempt(client, topic, producer.batch(2)) == (ErrorCode.none, 4)
        code, _ = attempt(client, topic, producer.batch(4))
        assert code is ErrorCode.out_of_order_sequence_number
        assert publish(client, topic, producer.batch(3)) == 6
        assert end_offset(client, topic) == 8


def _is_led(client: RawClient, topic: str) -> Callable[[], bool]:
    return lambda: fetched(client.ask(fetch_request(topic, 0))).error_code is ErrorCode.none


# Flushing


@pytest.mark.slow
def test_only_what_was_flushed_counts_as_safe_on_the_disk(tmp_path: Path) -> None:
    """The recovery point is the offset up to which the log was fsynced."""
    settings = {"log.flush.offset.checkpoint.interval.ms": "50"}
    with SingleBrokerServices(tmp_path, broker_settings=settings) as services:
        bootstrap = services.broker.bootstrap
        flushed = make_topic(bootstrap, configs=FLUSHED_AT_ONCE)
        timed = make_topic(bootstrap, configs={"flush.ms": "100"})
        unflushed = make_topic(bootstrap)
        with RawClient.to(bootstrap) as client:
            for topic in (unflushed, timed, flushed):
                publish(client, topic, batch_of([b"a", b"b"]).encode())
        for topic in (flushed, timed):
            eventually(lambda: recovery_points(services.broker.data).get(topic) == 2, f"{topic} is flushed")  # noqa: B023
        assert recovery_points(services.broker.data).get(unflushed, 0) == 0


def recovery_points(data: Path) -> dict[str, int]:
    """The recovery point of partition 0 of each topic, from the checkpoint file."""
    file = data / "recovery-point-offset-checkpoint"
    lines = file.read_text().splitlines()[2:] if file.exists() else []
    points = (line.split(" ") for line in lines)
    return {topic: int(offset) for topic, partition, offset in points if partition == "0"}


# Timestamps


def test_log_append_time_replaces_the_producers_timestamps(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic(configs={"message.timestamp.type": "LogAppendTime"})
    with RawClient.to(bootstrap) as client:
        answer = produced(client.ask(produce_request(topic, encode_batch(VARIED_RECORDS, codec=Codec.GZIP))))
        assert answer.error_code is ErrorCode.none
        appended_ms = int(answer.log_append_time.timestamp() * 1000)
        assert appended_ms > TIMESTAMP_MS + 9
        ((header, batch),) = stored_batches(client, topic)
        assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
        assert header.max_timestamp == appended_ms
        assert [record.timestamp for record in iterate_records(batch, header)] == [appended_ms] * 3


def test_create_time_keeps_the_producers_timestamps(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic()
    with RawClient.to(bootstrap) as client:
        answer = produced(client.ask(produce_request(topic, encode_batch(VARIED_RECORDS))))
        assert (answer.error_code, answer.log_append_time) == (ErrorCode.none, None)
        ((header, batch),) = stored_batches(client, topic)
        assert header.timestamp_type is TimestampType.CREATE_TIME
        assert list(iterate_records(batch, header)) == VARIED_RECORDS


@pytest.mark.parametrize(
    ("config", "timestamp_ms"),
    [
        ("message.timestamp.after.max.ms", 4_000_000_000_000),
        ("message.timestamp.before.max.ms", TIMESTAMP_MS),
    ],
)
def test_timestamps_too_far_from_the_brokers_clock_are_refused(
    bootstrap: str, new_topic: TopicFactory, config: str, timestamp_ms: int
) -> None:
    topic = new_topic(configs={config: "1000"})
    with RawClient.to(bootstrap) as client:
        code, _ = attempt(client, topic, encode_batch([Record(0, timestamp_ms, None, b"v", ())]))
        assert code is ErrorCode.invalid_timestamp
        assert end_offset(client, topic) == 0


# Compression


@pytest.mark.parametrize("sent", list(Codec), ids=lambda codec: codec.name.lower())
@pytest.mark.parametrize("compression_type", COMPRESSION_TYPES)
def test_batches_are_stored_with_the_topics_codec(
    broker: BrokerUnderTest, new_topic: TopicFactory, compression_type: str, sent: Codec
) -> None:
    topic = new_topic(configs={"compression.type": compression_type})
    with RawClient.to(broker.bootstrap) as client:
        publish(
            client,
            topic,
            encode_batch(VARIED_RECORDS, codec=sent, producer_id=4711, producer_epoch=0, base_sequence=0),
        )
    ((header, batch),) = batches_on_disk(broker, topic)
    assert header.codec_id == COMPRESSION_TYPES[compression_type]
    assert list(iterate_records(batch, header)) == VARIED_RECORDS
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4711, 0, 0)
    assert header.max_timestamp == TIMESTAMP_MS + 9


@pytest.mark.parametrize("sent", list(Codec), ids=lambda codec: codec.name.lower())
def test_batches_of_a_topic_that_leaves_compression_to_producers_keep_every_byte(
    broker: BrokerUnderTest, new_topic: TopicFactory, sent: Codec
) -> None:
    topic = new_topic(configs={"compression.type": "producer"})
    records = encode_batch(VARIED_RECORDS, codec=sent)
    with RawClient.to(broker.bootstrap) as client:
        publish(client, topic, records)
        publish(client, topic, records)
    (_, first), (header, second) = batches_on_disk(broker, topic)
    assert first[CRC_OFFSET:] == second[CRC_OFFSET:] == records[CRC_OFFSET:]
    assert (header.base_offset, header.size_bytes) == (3, len(records))


def test_recompressed_batches_stay_duplicates_of_what_was_sent(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic(configs={"compression.type": "zstd"})
    with RawClient.to(bootstrap) as client:
        producer = Sequences(client)
        assert publish(client, topic, producer.batch(0)) == 0
        assert publish(client, topic, producer.batch(0)) == 0
        assert end_offset(client, topic) == 2


# Size and keys


def test_a_batch_that_only_recompression_makes_too_large_is_refused(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic(configs={"compression.type": "uncompressed", "max.message.bytes": "10000"})
    records = encode_batch([Record(0, TIMESTAMP_MS, None, bytes(50_000), ())], codec=Codec.ZSTD)
    with RawClient.to(bootstrap) as client:
        assert attempt(client, topic, records)[0] is ErrorCode.message_too_large
        assert end_offset(client, topic) == 0


def test_raising_max_message_bytes_counts_from_the_next_batch_on(bootstrap: str, new_topic: TopicFactory) -> None:
    topic, records = new_topic(configs={"max.message.bytes": "1000"}), batch_of([bytes(2000)]).encode()
    with RawClient.to(bootstrap) as client:
        assert attempt(client, topic, records)[0] is ErrorCode.message_too_large
        set_topic_config(client, topic, "max.message.bytes", "5000")
        eventually(lambda: attempt(client, topic, records)[0] is ErrorCode.none, "the new setting counts")


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD], ids=lambda codec: codec.name.lower())
def test_a_compacted_topic_takes_no_record_without_a_key(
    bootstrap: str, new_topic: TopicFactory, codec: Codec
) -> None:
    topic = new_topic(configs={"cleanup.policy": "compact"})
    keyed = [Record(offset, TIMESTAMP_MS, b"k", None, ()) for offset in range(3)]
    one_keyless = [keyed[0], keyed[1]._replace(key=None), keyed[2]]
    with RawClient.to(bootstrap) as client:
        refused = produced(client.ask(produce_request(topic, encode_batch(one_keyless, codec=codec))))
        assert refused.error_code is ErrorCode.invalid_record
        assert end_offset(client, topic) == 0, "the whole batch is refused"
        assert publish(client, topic, encode_batch(keyed, codec=codec)) == 0


def test_topics_that_are_looked_into_stand_among_others_in_one_request(
    bootstrap: str, new_topic: TopicFactory
) -> None:
    plain, compacted = new_topic(partitions=3), new_topic(partitions=2, configs={"cleanup.policy": "compact"})
    keyless, keyed = batch_of([b"a"]).encode(), encode_batch([Record(0, TIMESTAMP_MS, b"k", b"v", ())])
    wanted = [
        (plain, [(0, keyless), (1, keyless)]),
        (compacted, [(0, keyless), (1, keyed)]),
        (plain, [(2, keyless)]),
    ]
    topic_data = [
        {"name": name, "partition_data": [{"index": index, "records": records} for index, records in partitions]}
        for name, partitions in wanted
    ]
    with RawClient.to(bootstrap) as client:
        answer = client.ask(sparse_request("produce", 9, acks=ALL_IN_SYNC, timeout=10_000, topic_data=topic_data))
        outcomes = [
            (answered.name, partition.index, partition.error_code)
            for answered in answer.responses
            for partition in answered.partition_responses
        ]
        assert outcomes == [
            (plain, 0, ErrorCode.none),
            (plain, 1, ErrorCode.none),
            (compacted, 0, ErrorCode.invalid_record),
            (compacted, 1, ErrorCode.none),
            (plain, 2, ErrorCode.none),
        ]
        assert [end_offset(client, plain, partition=index) for index in range(3)] == [1, 1, 1]
        assert [end_offset(client, compacted, partition=index) for index in range(2)] == [0, 1]


def test_a_refusal_names_the_records_without_a_key(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic(configs={"cleanup.policy": "compact"})
    records = [Record(offset, TIMESTAMP_MS, None if offset else b"k", b"v", ()) for offset in range(3)]
    with RawClient.to(bootstrap) as client:
        refused = produced(client.ask(produce_request(topic, encode_batch(records))))
        assert [error.batch_index for error in refused.record_errors] == [1, 2]
        assert refused.error_message


def set_topic_config(client: RawClient, topic: str, name: str, value: str) -> None:
    """Changes one setting of a topic."""
    change = {"resource_type": 2, "resource_name": topic, "configs": [{"name": name, "value": value}]}
    answer = client.ask(sparse_request("incremental_alter_configs", 1, resources=[change]))
    assert answer.responses[0].error_code is ErrorCode.none, answer.responses[0].error_message
