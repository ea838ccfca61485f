"""Compacting a log in tests, in this process and at once, and looking at what is left."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ottla_broker.log.compaction.segment_cleaning import CleanedSegment, MappedKeys, NoPace, Pace, clean
from ottla_broker.log.partition.log_compaction import RoundLimits
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_core.topic_config import TopicConfig
from ottla_core.wire.compression import Codec
from ottla_core.wire.records import Record, encode_batch, iterate_records
from tests.support.broker.partition_logs import NOW_MS, read_batches, small_segments

LIMITS = RoundLimits(map_bytes=1 << 20, buffer_bytes=1 << 17)
SCARCE = RoundLimits(map_bytes=0, map_load_factor=0.13, buffer_bytes=1 << 17)
"""Room for four keys."""
DELETE_RETENTION_MS = 60_000


def compacted(**settings: Any) -> TopicConfig:
    """Settings of a compacted topic with tiny segments, which is cleaned whenever anything is dirty."""
    return replace(
        small_segments(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0),
        **{"delete_retention_ms": DELETE_RETENTION_MS, "file_delete_delay_ms": 0, **settings},
    )


def compact(
    log: PartitionLog, *, now_ms: int = NOW_MS, limits: RoundLimits = LIMITS, pace: Pace | None = None
) -> list[CleanedSegment] | None:
    """Do one round if one is due; return the segments it made, or None."""
    log.compaction.make_durable()
    assessment = log.compaction.assess(now_ms)
    if not assessment.is_due:
        return None
    cleaning = log.compaction.begin(assessment, limits, now_ms)
    end_offset = assessment.first_dirty_offset
    segments = []
    for result in clean(cleaning.job, pace or NoPace()):
        if isinstance(result, MappedKeys):
            end_offset = result.end_offset
        else:
            cleaning.swap(result, now_ms)
            segments.append(result)
    cleaning.finish(end_offset)
    return segments


def put(
    log: PartitionLog,
    *pairs: tuple[bytes, bytes | None],
    now_ms: int = NOW_MS,
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> int:
    """Append one batch of keys and values, let the high watermark follow, and return its first offset."""
    records = [Record(delta, now_ms, key, value) for delta, (key, value) in enumerate(pairs)]
    batch = encode_batch(
        records, codec=codec, producer_id=producer[0], producer_epoch=producer[1], base_sequence=producer[2]
    )
    appended = log.append_as_leader(batch, leader_epoch=0, now_ms=now_ms)
    log.high_watermark = log.log_end_offset
    return appended.base_offset


def records_of(log: PartitionLog) -> list[Record]:
    """Every record that a consumer sees from the log's start."""
    return [
        record
        for header, batch in read_batches(log)
        for record in iterate_records(batch, header)
        if record.offset >= log.log_start_offset
    ]


def pairs_of(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of every record."""
    return [(record.offset, record.key, record.value) for record in records_of(log)]


def last_values(records: Iterable[Record]) -> dict[bytes | None, bytes]:
    """What a reader has who applies every record to a table."""
    table: dict[bytes | None, bytes] = {}
    for record in records:
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table
