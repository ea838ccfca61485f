"""Each rule that a client's batch must fulfil, and the Kafka error that answers its breach."""

import struct
from dataclasses import replace

import pytest
from crc32c import crc32c

from ottla_broker.log.appends.append_validation import check_batch, check_keys, sole_batch
from ottla_core.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    MessageTooLarge,
    RecordListTooLarge,
    UnsupportedCompressionType,
)
from ottla_core.topic_config import TopicConfig
from ottla_core.wire.compression import Codec
from ottla_core.wire.record_batch import pack_header, parse_header
from ottla_core.wire.records import Record, encode_batch
from tests.support.broker.partition_logs import NOW_MS, PARTITION, batch_of

GOOD = batch_of(b"one", b"two")
CONFIG = TopicConfig()
HOUR_MS = 3_600_000


def check(batch: bytes, config: TopicConfig = CONFIG) -> None:
    check_batch(sole_batch(memoryview(batch), PARTITION), config, NOW_MS, PARTITION)


def changed(**fields: int) -> bytes:
    """The good batch with other header fields and a CRC that fits them."""
    header = parse_header(GOOD)._replace(**fields)
    return pack_header(header, GOOD[61:]) + GOOD[61:]


def test_a_good_batch_passes() -> None:
    assert check_batch(memoryview(GOOD), CONFIG, NOW_MS, PARTITION) == parse_header(GOOD)


@pytest.mark.parametrize(
    ("batch", "error", "complaint"),
    [
        (b"", InvalidRecord, "no whole record batch"),
        (GOOD[:60], InvalidRecord, "no whole record batch"),
        (GOOD[:-1], InvalidRecord, "no whole record batch"),
        (GOOD + GOOD, InvalidRecord, "one record batch"),
        (GOOD + bytes(30), CorruptMessage, "Record size 0"),
        (bytes(61), CorruptMessage, "Record size 0"),
        (GOOD[:16] + b"\x03" + GOOD[17:], CorruptMessage, "magic found in a record .*: 3"),
        (GOOD[:8] + struct.pack(">i", len(GOOD) - 13) + GOOD[12:], CorruptMessage, "stored crc"),
        (GOOD[:8] + struct.pack(">i", len(GOOD) - 11) + GOOD[12:], InvalidRecord, "no whole record batch"),
        (GOOD[:-1] + b"\x7f", CorruptMessage, "stored crc"),
        (GOOD[:16] + b"\x01" + GOOD[17:], InvalidRecord, "magic 1"),
        (GOOD[:16] + b"\x00" + GOOD[17:], InvalidRecord, "magic 0"),
        (GOOD[:8] + struct.pack(">i", 7) + GOOD[12:], CorruptMessage, "Record size 7"),
        (GOOD[:8] + struct.pack(">i", 48) + GOOD[12:], CorruptMessage, "declares 60 bytes"),
        (changed(record_count=3), InvalidRecord, "record count 3"),
        (changed(record_count=0, last_offset_delta=-1), InvalidRecord, "record count 0"),
        (changed(record_count=-1, last_offset_delta=-2), InvalidRecord, "record count -1"),
        (changed(base_offset=5), InvalidRecord, "base offset 5"),
        (changed(attributes=0x20), InvalidRecord, "control records"),
        (changed(attributes=0x10), InvalidRecord, "has no producer"),
        (changed(attributes=0x10, producer_id=4, producer_epoch=0), InvalidRecord, "sequence number -1"),
        (changed(attributes=0x01), InvalidRecord, "not what codec 1 makes"),
        (changed(attributes=0x04), InvalidRecord, "not what codec 4 makes"),
        (changed(attributes=0x05), UnsupportedCompressionType, "codec 5"),
        (changed(producer_id=4, producer_epoch=0), InvalidRecord, "sequence number -1"),
        (changed(max_timestamp=NOW_MS + HOUR_MS + 1), InvalidTimestamp, "out of range"),
    ],
)
def test_breaches_are_answered_as_kafka_answers_them(batch: bytes, error: type[KafkaError], complaint: str) -> None:
    with pytest.raises(error, match=complaint):
        check(batch)


def test_sizes_are_limited_by_topic_and_segment() -> None:
    check(GOOD, replace(CONFIG, max_message_bytes=len(GOOD), segment_bytes=len(GOOD)))
    with pytest.raises(MessageTooLarge):
        check(GOOD, replace(CONFIG, max_message_bytes=len(GOOD) - 1))
    with pytest.raises(RecordListTooLarge):
        check(GOOD, replace(CONFIG, segment_bytes=len(GOOD) - 1))


def test_timestamps_may_lie_within_the_topics_limits() -> None:
    limited = replace(CONFIG, message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=1000)
    check(batch_of(b"v", b"v", timestamps=[NOW_MS - 1000, NOW_MS + 1000]), limited)
    for timestamps in ([NOW_MS - 1001, NOW_MS], [NOW_MS, NOW_MS + 1001]):
        with pytest.raises(InvalidTimestamp, match="should be within"):
            check(batch_of(b"v", b"v", timestamps=timestamps), limited)
    check(batch_of(b"v", timestamps=[-1]), limited)
    check(batch_of(b"v", timestamps=[5]), replace(limited, message_timestamp_type="LogAppendTime"))


def test_a_few_stray_bytes_behind_a_batch_are_dropped() -> None:
    assert sole_batch(memoryview(GOOD + bytes(16)), PARTITION) == GOOD


@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_the_timestamp_type_of_a_clients_batch_does_not_matter(timestamp_type: str) -> None:
    check(changed(attributes=0x08), replace(CONFIG, message_timestamp_type=timestamp_type))


@pytest.mark.parametrize("codec", list(Codec))
def test_compacted_topics_need_keys(codec: Codec) -> None:
    keyed = batch_of(b"v", None, codec=codec)
    check_keys(memoryview(keyed), parse_header(keyed), PARTITION)
    keyless = encode_batch([Record(0, 0, b"k", b"v"), Record(1, 0, None, b"v")], codec=codec)
    with pytest.raises(InvalidRecord, match="1 of 2 records have been rejected, the first at 1") as refused:
        check_keys(memoryview(keyless), parse_header(keyless), PARTITION)
    assert [number for number, _ in refused.value.record_errors] == [1]


def test_the_crc_is_checked_before_anything_behind_it_is_believed() -> None:
    batch = bytearray(changed(attributes=0x20))
    batch[17:21] = struct.pack(">I", crc32c(batch[21:]) ^ 1)
    with pytest.raises(CorruptMessage):
        check(bytes(batch))
