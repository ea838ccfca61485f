"""Keeping records elsewhere before they are cut off a log, because the source that it follows now does not have them.

They go to a file beside the partitions' directories, in Kafka's format, so that what shows segments shows it
(`ottla log dump`, Kafka's DumpLogSegments), and are fsynced before anything is cut.
"""

import asyncio
import os
from pathlib import Path
from typing import Final
from uuid import UUID

from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_core.errors import KafkaStorageError
from ottla_core.wire.record_batch import iterate_batches

COPIED_AT_ONCE_BYTES: Final = 4 * 1024 * 1024


async def keep_aside(log: PartitionLog, offset: int, end_offset: int, topic_id: UUID, now_ms: int) -> Path:
    """Write the batches between two offsets to a file, make it durable, and return it.

    Raises:
        KafkaStorageError: the disk refuses.
    """
    name = f"set-aside-{topic_id}-{log.topic_partition.partition}-{offset}-{end_offset}-{now_ms}.log"
    path = log.directory.parent / name
    try:
        await asyncio.to_thread(_begin, path)
        position = max(offset, log.log_start_offset)
        while position < end_offset:
            found = log.read(position, max_bytes=COPIED_AT_ONCE_BYTES, end_offset=end_offset, at_least_one_batch=True)
            if found is None:
                break
            with log.reading():
                data = found.read()
            await asyncio.to_thread(_append, path, data)
            position = max(header.next_offset for header, _ in iterate_batches(data))
        await asyncio.to_thread(_make_durable, path)
    except OSError as error:
        raise KafkaStorageError(f"{path}: {error.strerror or error}") from error
    return path


def _begin(path: Path) -> None:
    path.touch(exist_ok=False)


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def _make_durable(path: Path) -> None:
    for each, flags in ((path, os.O_RDONLY), (path.parent, os.O_RDONLY | os.O_DIRECTORY)):
        descriptor = os.open(each, flags)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
