"""What a batch from a client must fulfil before it is appended: the checks of Kafka's LogValidator.

They look at the 61-byte header, the CRC and, in an uncompressed batch, the length of each record, so that no batch
is stored that stops its readers. Compressed records stay packed: what Kafka would find by unpacking them is not
found here. Only a topic whose cleanup policy is compaction has its records looked into, as each needs a key there.
"""

from typing import Final

from crc32c import crc32c

from ottla_core.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    InvalidTransactionState,
    KafkaError,
    MessageTooLarge,
    RecordListTooLarge,
    UnsupportedCompressionType,
)
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.compression import Codec
from ottla_core.wire.record_batch import (
    ATTRIBUTES_OFFSET,
    BATCH_LENGTH_MIN,
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER,
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_OFFSET,
    MAGIC_V2,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    RecordBatchHeader,
)
from ottla_core.wire.records import check_record_lengths, iterate_records

_CODEC_ID_MAX: Final = max(Codec)
_REFUSED_FLAGS: Final = CONTROL_FLAG | TRANSACTIONAL_FLAG | TIMESTAMP_TYPE_FLAG


def check_batch(
    records: memoryview, config: TopicConfig, now_ms: int, topic_partition: TopicPartition
) -> RecordBatchHeader:
    """Return the header of a client's batch that may be appended.

    Args:
        records: the records field of a produce request, which has to be exactly one batch.
        config: the topic's settings.
        now_ms: the broker's clock.
        topic_partition: the partition, for messages.

    Raises:
        CorruptMessage, InvalidRecord, InvalidTimestamp, InvalidTransactionState, MessageTooLarge,
        RecordListTooLarge, UnsupportedCompressionType: as Kafka would answer.
    """
    size = len(records)
    if size < HEADER_SIZE_BYTES or records[MAGIC_OFFSET] != MAGIC_V2:
        raise _no_v2_batch(records, topic_partition)
    header = RecordBatchHeader._make(HEADER.unpack_from(records))
    (base_offset, length, _, _, crc, attributes, last_offset_delta, base_timestamp, max_timestamp,
     producer_id, _, base_sequence, record_count) = header  # fmt: skip
    if length + LOG_OVERHEAD_BYTES != size:
        raise _wrong_length(header, size, topic_partition)
    if size > config.max_message_bytes:
        raise MessageTooLarge(
            f"The record batch size in the append to {topic_partition} is {size} bytes,"
            f" which exceeds max.message.bytes of {config.max_message_bytes}"
        )
    if size > config.segment_bytes:
        raise RecordListTooLarge(
            f"The record batch size in the append to {topic_partition} is {size} bytes,"
            f" which exceeds segment.bytes of {config.segment_bytes}"
        )
    if crc32c(records[ATTRIBUTES_OFFSET:]) != crc:
        raise CorruptMessage(f"Record batch is corrupt (stored crc = {crc}) in {topic_partition}")
    if record_count <= 0 or last_offset_delta != record_count - 1 or base_offset:
        raise InvalidRecord(
            f"Inconsistent base offset {base_offset}, last offset delta {last_offset_delta} and record count"
            f" {record_count} of a batch for {topic_partition}; they must be 0, n - 1 and n"
        )
    if attributes & _REFUSED_FLAGS:
        _check_flags(attributes, config, topic_partition)
    if not attributes & CODEC_MASK:
        check_record_lengths(records, header)
    elif attributes & CODEC_MASK > _CODEC_ID_MAX:
        raise UnsupportedCompressionType(
            f"Unknown compression codec {attributes & CODEC_MASK} in a batch for {topic_partition}"
        )
    if producer_id >= 0 and base_sequence < 0:
        raise InvalidRecord(
            f"Invalid sequence number {base_sequence} in a batch of producer {producer_id} for {topic_partition}"
        )
    if config.message_timestamp_type == "CreateTime" and (
        max_timestamp - now_ms > config.message_timestamp_after_max_ms
        or now_ms - base_timestamp > config.message_timestamp_before_max_ms
    ):
        _check_timestamps(header, config, now_ms, topic_partition)
    return header


def check_keys(batch: memoryview, header: RecordBatchHeader, topic_partition: TopicPartition) -> None:
    """Refuse a batch for a compacted topic in which a record has no key.

    Raises:
        InvalidRecord: a record has no key, or the records cannot be read.
    """
    for record in iterate_records(batch, header):
        if record.key is None:
            raise InvalidRecord(
                f"Compacted topic cannot accept a record without key in {topic_partition}"
                f" (record {record.offset - header.base_offset} of the batch)"
            )


def _no_v2_batch(records: memoryview, topic_partition: TopicPartition) -> KafkaError:
    if len(records) > MAGIC_OFFSET and records[MAGIC_OFFSET] != MAGIC_V2:
        return InvalidRecord(
            f"Produce requests may only contain record batches with magic 2;"
            f" the one for {topic_partition} has magic {records[MAGIC_OFFSET]}"
        )
    if not records:
        return InvalidRecord(f"A produce request must contain one record batch for {topic_partition}, it has none")
    return CorruptMessage(f"The {len(records)} bytes for {topic_partition} are too few for a record batch")


def _wrong_length(header: RecordBatchHeader, size: int, topic_partition: TopicPartition) -> KafkaError:
    if header.batch_length < BATCH_LENGTH_MIN or header.size_bytes > size:
        return CorruptMessage(
            f"Record batch for {topic_partition} declares {header.size_bytes} bytes, {size} were sent"
        )
    return InvalidRecord(
        f"Produce requests may only contain exactly one record batch per partition; {topic_partition} has"
        f" {size - header.size_bytes} bytes after the first"
    )


def _check_flags(attributes: int, config: TopicConfig, topic_partition: TopicPartition) -> None:
    if attributes & CONTROL_FLAG:
        raise InvalidRecord(f"Clients are not allowed to write control records in {topic_partition}")
    if attributes & TRANSACTIONAL_FLAG:
        raise InvalidTransactionState(f"{topic_partition} takes no transactional records: they are not supported yet")
    if config.message_timestamp_type == "CreateTime":
        raise InvalidTimestamp(f"Producers should not set the timestamp type to LogAppendTime ({topic_partition})")


def _check_timestamps(
    header: RecordBatchHeader, config: TopicConfig, now_ms: int, topic_partition: TopicPartition
) -> None:
    """Refuse the batch unless the offending timestamp is -1, which means that there is none."""
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    for timestamp in (header.base_timestamp, header.max_timestamp):
        if timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
            raise InvalidTimestamp(
                f"Timestamp {timestamp} of a record for {topic_partition} is out of range;"
                f" it should be within [{earliest}, {latest}]"
            )
