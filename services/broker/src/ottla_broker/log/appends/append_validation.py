"""What a batch from a client must fulfil before it is appended: the checks of Kafka's LogValidator. Pure.

They look at the 61-byte header, the CRC and, in an uncompressed batch, the length of each record, so that no batch
is stored that stops its readers. Compressed records stay packed: what Kafka would find by unpacking them is not
found here. Only a topic whose cleanup policy is compaction has its records looked into, as each needs a key there.
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from crc32c import crc32c

from ottla_core.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    RecordListTooLarge,
    UnsupportedCompressionType,
)
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.compression import FRAME_MAGIC, Codec
from ottla_core.wire.record_batch import (
    ATTRIBUTES_OFFSET,
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER,
    HEADER_SIZE_BYTES,
    LEADER_EPOCH_OFFSET,
    LENGTH_OFFSET,
    LOG_OVERHEAD_BYTES,
    MAGIC_OFFSET,
    MAGIC_V2,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    RecordBatchHeader,
)
from ottla_core.wire.records import check_record_lengths, iterate_records

OLD_RECORD_LENGTH_MIN: Final = 14
"""Bytes of the smallest message of format 0, which Kafka holds every length against."""
RECORD_ERRORS_MAX: Final = 1000
"""A response names no more records than that."""
_CODEC_ID_MAX: Final = max(Codec)
_TRANSACTION_FLAGS: Final = CONTROL_FLAG | TRANSACTIONAL_FLAG


class AppendOrigin(Enum):
    """Who has made a batch. Source: Kafka's AppendOrigin.

    A coordinator's records have keys, which is not looked into again, and bear its own clock's time. Its batches may
    be without records: such a one takes one offset and one sequence number, and makes its producer's epoch known to
    the log. Those of a transaction have no sequence, and it alone may write markers.
    """

    CLIENT = auto()
    COORDINATOR = auto()


def sole_batch(records: memoryview, topic_partition: TopicPartition) -> memoryview:
    """Return the one batch that a client's records must be; a few stray bytes behind it are dropped.

    Args:
        records: the records field of a produce request.
        topic_partition: the partition, for messages.

    Raises:
        CorruptMessage, InvalidRecord: as Kafka would answer; it looks for batches one after the other.
    """
    if (
        len(records) > HEADER_SIZE_BYTES
        and records[MAGIC_OFFSET] == MAGIC_V2
        and int.from_bytes(records[LENGTH_OFFSET:LEADER_EPOCH_OFFSET]) + LOG_OVERHEAD_BYTES == len(records)
    ):
        return records
    size = _next_batch_size(records, topic_partition)
    if size == 0:
        raise InvalidRecord(f"The {len(records)} bytes of records for {topic_partition} hold no whole record batch")
    if records[MAGIC_OFFSET] != MAGIC_V2:
        raise InvalidRecord(
            f"Produce requests may only contain record batches with magic 2;"
            f" the one for {topic_partition} has magic {records[MAGIC_OFFSET]}"
        )
    if _next_batch_size(records[size:], topic_partition):
        raise InvalidRecord(f"Produce requests may only contain one record batch per partition ({topic_partition})")
    if size < HEADER_SIZE_BYTES:
        raise CorruptMessage(f"The record batch for {topic_partition} declares {size} bytes, less than its header")
    return records[:size]


def _next_batch_size(records: memoryview, topic_partition: TopicPartition) -> int:
    """Return the size of the batch that begins here, or 0 if there is no whole one."""
    if len(records) <= MAGIC_OFFSET:
        return 0
    length = int.from_bytes(records[LENGTH_OFFSET:LEADER_EPOCH_OFFSET], signed=True)
    if length < OLD_RECORD_LENGTH_MIN:
        raise CorruptMessage(
            f"Record size {length} is less than the minimum record overhead ({OLD_RECORD_LENGTH_MIN})"
            f" in {topic_partition}"
        )
    magic = records[MAGIC_OFFSET]
    if magic > MAGIC_V2:
        raise CorruptMessage(f"Invalid magic found in a record for {topic_partition}: {magic}")
    size = length + LOG_OVERHEAD_BYTES
    return size if size <= len(records) else 0


def check_batch(
    records: memoryview,
    config: TopicConfig,
    now_ms: int,
    topic_partition: TopicPartition,
    origin: AppendOrigin = AppendOrigin.CLIENT,
) -> RecordBatchHeader:
    """Return the header of a batch that may be appended.

    Args:
        records: exactly one batch, as `sole_batch` returns it.
        config: the topic's settings.
        now_ms: the broker's clock.
        topic_partition: the partition, for messages.
        origin: who has made the batch.

    Raises:
        CorruptMessage, InvalidRecord, InvalidTimestamp, MessageTooLarge, RecordListTooLarge,
        UnsupportedCompressionType: as Kafka would answer.
    """
    size = len(records)
    header = RecordBatchHeader._make(HEADER.unpack_from(records))
    (base_offset, _, _, _, crc, attributes, last_offset_delta, base_timestamp, max_timestamp,
     producer_id, _, base_sequence, record_count) = header  # fmt: skip
    # A coordinator keeps to a size of its own, and a setting meant for clients must not make it fail.
    if size > config.max_message_bytes and origin is AppendOrigin.CLIENT:
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
    is_regular = record_count > 0 and last_offset_delta == record_count - 1 and not base_offset
    if not is_regular and not (origin is AppendOrigin.COORDINATOR and is_empty(header)):
        raise InvalidRecord(
            f"Inconsistent base offset {base_offset}, last offset delta {last_offset_delta} and record count"
            f" {record_count} of a batch for {topic_partition}; they must be 0, n - 1 and n"
        )
    if attributes & _TRANSACTION_FLAGS:
        _check_flags(header, topic_partition, origin)
    if not attributes & CODEC_MASK:
        check_record_lengths(records, header)
    else:
        _check_codec(records, attributes & CODEC_MASK, topic_partition)
    if producer_id >= 0 and base_sequence < 0 and not _needs_no_sequence(attributes, origin):
        raise InvalidRecord(
            f"Invalid sequence number {base_sequence} in a batch of producer {producer_id} for {topic_partition}"
        )
    if (
        config.message_timestamp_type == "CreateTime"
        and (
            max_timestamp - now_ms > config.message_timestamp_after_max_ms
            or now_ms - base_timestamp > config.message_timestamp_before_max_ms
        )
        and origin is AppendOrigin.CLIENT
    ):
        _check_timestamps(header, config, now_ms, topic_partition)
    return header


def is_empty(header: RecordBatchHeader) -> bool:
    """Return whether a batch, not appended yet, takes one offset without having a record."""
    return header.record_count == 0 and header.last_offset_delta == 0 and header.base_offset == 0


def check_keys(batch: memoryview, header: RecordBatchHeader, topic_partition: TopicPartition) -> None:
    """Refuse a batch for a compacted topic in which a record has no key.

    Raises:
        InvalidRecord: a record has no key, or the records cannot be read.
    """
    keyless = [number for number, record in enumerate(iterate_records(batch, header)) if record.key is None]
    if keyless:
        raise keyless_error(keyless, header, topic_partition)


def keyless_error(
    keyless: Sequence[int], header: RecordBatchHeader, topic_partition: TopicPartition
) -> InvalidRecord:
    """Return the refusal of a batch of which these records have no key."""
    problem = f"Compacted topic cannot accept message without key in topic partition {topic_partition}."
    return InvalidRecord(
        f"{len(keyless)} of {header.record_count} records have been rejected, the first at {keyless[0]}. {problem}",
        [(number, problem) for number in keyless[:RECORD_ERRORS_MAX]],
    )


def _check_codec(records: memoryview, codec_id: int, topic_partition: TopicPartition) -> None:
    """Refuse a codec that does not exist, and records that do not begin as their codec's frames do."""
    if codec_id > _CODEC_ID_MAX:
        raise UnsupportedCompressionType(f"Unknown compression codec {codec_id} in a batch for {topic_partition}")
    magic = FRAME_MAGIC.get(codec_id, b"")
    if records[HEADER_SIZE_BYTES : HEADER_SIZE_BYTES + len(magic)] != magic:
        raise InvalidRecord(f"The records of a batch for {topic_partition} are not what codec {codec_id} makes")


def _check_flags(header: RecordBatchHeader, topic_partition: TopicPartition, origin: AppendOrigin) -> None:
    if header.attributes & CONTROL_FLAG and origin is AppendOrigin.CLIENT:
        raise InvalidRecord(f"Clients are not allowed to write control records in {topic_partition}")
    if header.producer_id < 0 or header.producer_epoch < 0 or not header.attributes & TRANSACTIONAL_FLAG:
        raise InvalidRecord(
            f"A transactional batch for {topic_partition} has no producer, or a marker no transaction"
        )


def _needs_no_sequence(attributes: int, origin: AppendOrigin) -> bool:
    """Return whether a batch is a coordinator's own, of a transaction: who writes those knows what it has written."""
    return bool(attributes & TRANSACTIONAL_FLAG) and origin is AppendOrigin.COORDINATOR


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
