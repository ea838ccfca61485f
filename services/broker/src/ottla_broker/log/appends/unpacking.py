"""Looking into the records of a batch that is long to unpack, away from the event loop.

A kilobyte of zstd can be hundreds of megabytes of records. Where a broker has to look into records (each needs a key
in a compacted topic, `compression.type` asks for another codec, a search by time) it does so at once if they are few
and small. Otherwise the codec works in a thread, which it does without holding the interpreter, and the walk
over the records goes in slices. Either is bounded: by `UNPACKED_BYTES_MAX` and by `RECORDS_MAX`.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from ottla_broker.log.appends.append_validation import keyless_error
from ottla_broker.log.appends.recompression import repacked, target_codec
from ottla_core.errors import InvalidRecord, MessageTooLarge
from ottla_core.slices import in_slices
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.compression import Codec
from ottla_core.wire.record_batch import CODEC_MASK, RecordBatchHeader
from ottla_core.wire.record_walk import walk_records
from ottla_core.wire.records import read_varint, section_view

UNPACKED_AT_ONCE_BYTES_MAX: Final = 1024 * 1024
RECORDS_AT_ONCE_MAX: Final = 2_000
"""What is looked into at once: some milliseconds of work."""

UNPACKED_BYTES_MAX: Final = 128 * 1024 * 1024
RECORDS_MAX: Final = 2_000_000
"""No client's batch may have more where the broker has to look into it."""

_RECORDS_PER_STEP: Final = 500

Found = tuple[int, int, int]
"""Offset, timestamp in milliseconds, and leader epoch of a record."""


def is_long(batch: memoryview, header: RecordBatchHeader) -> bool:
    """Return whether the records of a batch are too many or too large to be looked into at once."""
    if header.record_count > RECORDS_AT_ONCE_MAX or header.size_bytes > UNPACKED_AT_ONCE_BYTES_MAX:
        return True
    if not header.attributes & CODEC_MASK:
        return False
    try:
        section_view(batch, header, size_bytes_max=UNPACKED_AT_ONCE_BYTES_MAX)
    except InvalidRecord:
        return True
    return False


@dataclass(frozen=True, slots=True)
class LookedInto:
    """A client's batch whose records were looked into before it is appended.

    Attributes:
        has_keys: whether every record was found to have a key.
        codec: what it was packed with anew, or None.
        header: its header.
        batch: its bytes.
    """

    has_keys: bool
    codec: Codec | None
    header: RecordBatchHeader
    batch: memoryview


async def look_into(
    batch: memoryview, header: RecordBatchHeader, config: TopicConfig, topic_partition: TopicPartition
) -> LookedInto:
    """Look into a batch as a topic's settings ask for.

    Raises:
        InvalidRecord: its records cannot be read, or one has no key where each needs one.
        MessageTooLarge: it has more records than are looked into, or too many bytes in the new codec.
    """
    if header.record_count > RECORDS_MAX:
        raise MessageTooLarge(
            f"A batch for {topic_partition} has {header.record_count} records; {RECORDS_MAX} is the most"
        )
    section = await asyncio.to_thread(section_view, batch, header, size_bytes_max=UNPACKED_BYTES_MAX)
    needs_keys = "compact" in config.cleanup_policy
    keyless = [number for step in await in_slices(_keyless(section, header)) for number in step]
    if keyless and needs_keys:
        raise keyless_error(keyless, header, topic_partition)
    codec = target_codec(config)
    if codec is None or header.attributes & CODEC_MASK == codec:
        return LookedInto(not keyless, None, header, batch)
    work = partial(repacked, section, header, codec, config, topic_partition)
    new_header, new_batch = await asyncio.to_thread(work)
    return LookedInto(not keyless, codec, new_header, new_batch)


def _keyless(section: memoryview, header: RecordBatchHeader) -> Iterator[list[int]]:
    """Yield the numbers of the records without a key, some hundred records at a time."""
    keyless: list[int] = []
    for number, (_, _, _, key, _) in enumerate(walk_records(section, header)):
        if key is None:
            keyless.append(number)
        if number % _RECORDS_PER_STEP == 0:
            yield keyless
            keyless = []
    yield keyless


@dataclass(frozen=True, slots=True)
class LongSearch:
    """A search for the first record that is late enough in time and offset, in a batch that is long to unpack."""

    batch: bytes
    header: RecordBatchHeader
    timestamp: int
    start_offset: int

    async def run(self) -> Found | None:
        """Return the record, or None; a batch that cannot be read stands for itself."""
        header = self.header
        view = memoryview(self.batch)
        try:
            section = await asyncio.to_thread(section_view, view, header, size_bytes_max=UNPACKED_BYTES_MAX)
            steps = await in_slices(self._late_enough(section))
        except InvalidRecord:
            return max(header.base_offset, self.start_offset), header.max_timestamp, header.leader_epoch
        return next((found for found in steps if found is not None), None)

    def _late_enough(self, section: memoryview) -> Iterator[Found | None]:
        header = self.header
        append_time = header.max_timestamp if header.timestamp_type else None
        for number, (start, _, offset, _, _) in enumerate(walk_records(section, header)):
            if number % _RECORDS_PER_STEP == 0:
                yield None
            if offset < self.start_offset:
                continue
            if append_time is None:
                _, position = read_varint(section, start)
                timestamp = header.base_timestamp + read_varint(section, position + 1)[0]
            else:
                timestamp = append_time
            if timestamp >= self.timestamp:
                yield offset, min(timestamp, header.max_timestamp), header.leader_epoch
                return
