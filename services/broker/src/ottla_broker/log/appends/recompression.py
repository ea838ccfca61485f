"""Storing batches with the codec that a topic's `compression.type` names. Pure.

A records section is the same bytes whatever compresses it, so it is unpacked, checked record by record (as
nothing else will look at it before a consumer does), packed again, and given a new header.
"""

from typing import Final

from ottla_core.errors import MessageTooLarge
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.compression import Codec, compress
from ottla_core.wire.record_batch import (
    CODEC_MASK,
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    Buffer,
    RecordBatchHeader,
    pack_header,
)
from ottla_core.wire.records import iterate_records, records_section

_CODEC_OF_SETTING: Final = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


def target_codec(config: TopicConfig) -> Codec | None:
    """Return the codec that the topic's batches are stored with, or None for the producer's choice."""
    return _CODEC_OF_SETTING[config.compression_type]


def compression_level(codec: Codec, config: TopicConfig) -> int | None:
    """Return the topic's level for the codec, or None where the codec has none."""
    return {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }.get(codec)


def recompress(
    batch: memoryview,
    header: RecordBatchHeader,
    codec: Codec,
    config: TopicConfig,
    topic_partition: TopicPartition,
) -> tuple[RecordBatchHeader, memoryview]:
    """Return the batch and its header with the records section in another codec.

    Raises:
        InvalidRecord: the records cannot be read.
        MessageTooLarge: the new batch exceeds `max.message.bytes`.
    """
    for _ in iterate_records(batch, header):
        pass
    return repacked(records_section(batch, header), header, codec, config, topic_partition)


def repacked(
    section: Buffer, header: RecordBatchHeader, codec: Codec, config: TopicConfig, topic_partition: TopicPartition
) -> tuple[RecordBatchHeader, memoryview]:
    """Return batch and header for a records section that was unpacked and looked into.

    Raises:
        MessageTooLarge: the new batch exceeds `max.message.bytes`.
    """
    body = compress(codec, section, compression_level(codec, config))
    new_header = header._replace(
        attributes=(header.attributes & ~CODEC_MASK) | codec,
        batch_length=HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES + len(body),
    )
    if new_header.size_bytes > config.max_message_bytes:
        raise MessageTooLarge(
            f"The record batch for {topic_partition} takes {new_header.size_bytes} bytes with compression.type"
            f" {config.compression_type}, which exceeds max.message.bytes of {config.max_message_bytes}"
        )
    return new_header, memoryview(pack_header(new_header, body) + body)
