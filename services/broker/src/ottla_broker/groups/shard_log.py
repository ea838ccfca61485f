"""What a coordinator does to the log of a shard: append a batch with acks=all, and read.

The log fences former owners: each owner writes with a higher producer epoch than the one before, beginning with a
batch without records, and the log refuses an epoch below the last it has seen. What this broker knows of the cluster
fences too, for the log forgets producers that have been silent for a day. So does the newest owner that has written
through this broker, which may not have heard of it yet: to the log, an owner under a new producer id is no successor.

Whatever goes wrong is an answer with a Kafka error code; the stream goes on.
"""

import asyncio
import os
from collections.abc import Callable

import structlog
from kio.schema.errors import ErrorCode

from ottla_broker.log.append_validation import AppendOrigin
from ottla_broker.log.log_reader import LogSlice
from ottla_broker.partition import Partition
from ottla_broker.partitions import PartitionTable
from ottla_core.clock import Clock
from ottla_core.cluster.model import ClusterState
from ottla_core.errors import (
    InvalidProducerEpoch,
    KafkaError,
    KafkaStorageError,
    OffsetOutOfRange,
    RecordListTooLarge,
    RequestTimedOut,
)
from ottla_core.group_shards import GROUP_TOPIC
from ottla_core.rpc.frame_queue import FRAME_BYTES_MAX
from ottla_core.wire.record_batch import RecordBatchHeader, parse_header
from ottla_proto.gen.ottla import group_relay_pb2 as pb

READ_BYTES_MAX = 4 * 1024 * 1024
"""The most that one answer carries, a single larger batch aside."""

READ_IN_THREAD_BYTES_MIN = 128 * 1024
"""Less than this is read at once: a thread would cost more than the page cache does."""

REPLICATION_TIMEOUT_SECONDS = 10.0
"""How long an append may wait for the other replicas; the coordinator gives up before."""

NO_OFFSET = -1
NO_WRITER = (-1, -1)

logger = structlog.get_logger("groups")


class SeenLaterEpoch(InvalidProducerEpoch):
    """The log itself has seen a later owner than the batch's: `epoch`."""

    def __init__(self, message: str, epoch: int) -> None:
        super().__init__(message)
        self.epoch = epoch


class ShardLog:
    """The partitions of `__consumer_offsets` that this broker leads, as coordinators use them.

    Attributes:
        append_count: batches that were appended.
        read_count: answers with records.
    """

    def __init__(self, partitions: PartitionTable, state: Callable[[], ClusterState], clock: Clock) -> None:
        self._partitions = partitions
        self._state = state
        self._clock = clock
        self._newest_writers: dict[int, tuple[int, int]] = {}
        self.append_count = 0
        self.read_count = 0

    async def append(self, request: pb.LogAppend) -> pb.LogAppended:
        """Append one batch; answers when every in-sync replica has it, and the disk where that is asked for."""
        seen_epoch: int | None = None
        try:
            base_offset = await self._append(request.shard, request.batch)
        except SeenLaterEpoch as error:
            code, message, seen_epoch = error.code, error.message, error.epoch
        except KafkaError as error:
            logger.debug("append to a shard refused", shard=request.shard, code=error.code.name, error=error.message)
            code, message = error.code, error.message
        except Exception:
            logger.exception("append to a shard failed unexpectedly", shard=request.shard)
            code, message = ErrorCode.unknown_server_error, "the broker failed unexpectedly; its log says why"
        else:
            self.append_count += 1
            return pb.LogAppended(base_offset=base_offset)
        return pb.LogAppended(
            error_code=code.value, error_message=message, base_offset=NO_OFFSET, seen_producer_epoch=seen_epoch
        )

    async def _append(self, shard: int, batch: bytes) -> int:
        """Return the offset of the batch's first record, also if it had been appended before.

        Raises:
            KafkaError: it was not appended, or nobody can tell whether it is safe.
        """
        partition = self._partitions.leader_of(GROUP_TOPIC, shard)
        header = parse_header(batch)
        self._check_owner(shard, header)
        try:
            appended = partition.append(
                batch, now_ms=self._clock.time_ms(), all_in_sync=True, origin=AppendOrigin.COORDINATOR
            )
        except InvalidProducerEpoch as error:
            entry = partition.log.producers.get(header.producer_id)
            raise error if entry is None else SeenLaterEpoch(error.message, entry.producer_epoch) from error
        self._newest_writers[shard] = header.producer_id, header.producer_epoch
        end_offset = appended.last_offset + 1
        if partition.log.flush_is_due:
            await partition.log.flushed(end_offset)
        if partition.log.high_watermark < end_offset:
            await _replicated(partition, end_offset)
        return appended.base_offset

    def _check_owner(self, shard: int, header: RecordBatchHeader) -> None:
        """Refuse a batch of a former owner; ids and epochs of producers only grow.

        Raises:
            InvalidProducerEpoch: this broker has heard of a later owner than the batch's producer.
        """
        known = self._state().shards.get(shard)
        assigned = NO_WRITER if known is None else (known.producer_id, known.producer_epoch)
        newest = max(assigned, self._newest_writers.get(shard, NO_WRITER))
        writer = (header.producer_id, header.producer_epoch)
        if header.producer_id < 0 or writer < newest:
            owner = "nobody yet" if newest == NO_WRITER else f"producer {newest[0]} with epoch {newest[1]}"
            raise InvalidProducerEpoch(
                f"{GROUP_TOPIC}-{shard} is written by {owner}, not by producer {writer[0]} with epoch {writer[1]}"
            )

    async def read(self, request: pb.LogRead) -> pb.LogRecords:
        """Read whole batches up to the high watermark; none where that has been reached."""
        answer = pb.LogRecords(log_start_offset=NO_OFFSET, high_watermark=NO_OFFSET)
        try:
            partition = self._partitions.leader_of(GROUP_TOPIC, request.shard)
            answer.log_start_offset = partition.log.log_start_offset
            answer.high_watermark = partition.log.high_watermark
            answer.batches = await _read(partition, request.offset, request.bytes_max)
            self.read_count += 1
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code.value, error.message
        except Exception:
            logger.exception("read of a shard failed unexpectedly", shard=request.shard)
            answer.error_code = ErrorCode.unknown_server_error.value
            answer.error_message = "the broker failed unexpectedly; its log says why"
        return answer


async def _replicated(partition: Partition, end_offset: int) -> None:
    """Return when the partition's in-sync replicas have everything below an offset.

    Raises:
        NotLeaderOrFollower: this broker leads no longer; the batch may get lost.
        NotEnoughReplicasAfterAppend: too few replicas are in sync by now.
        RequestTimedOut: the others did not fetch it in time.
    """
    replicated: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def notify(error: KafkaError | None) -> None:
        if not replicated.done():
            replicated.set_result(None) if error is None else replicated.set_exception(error)

    partition.when_replicated(end_offset, notify)
    try:
        async with asyncio.timeout(REPLICATION_TIMEOUT_SECONDS):
            await replicated
    except TimeoutError:
        raise RequestTimedOut(f"{partition.topic_partition} was not replicated up to {end_offset} in time") from None
    finally:
        partition.no_longer_wait(notify)


async def _read(partition: Partition, offset: int, bytes_max: int) -> bytes:
    log = partition.log
    if not log.log_start_offset <= offset <= log.high_watermark:
        raise OffsetOutOfRange(
            f"offset {offset} is outside {partition.topic_partition}, which has"
            f" [{log.log_start_offset}, {log.high_watermark}]"
        )
    piece = partition.read(offset, min(bytes_max, READ_BYTES_MAX), at_least_one_batch=True)
    if piece is None:
        return b""
    if piece.size > FRAME_BYTES_MAX:
        raise RecordListTooLarge(
            f"{partition.topic_partition} has a batch of {piece.size} bytes at offset {offset};"
            f" a coordinator can read {FRAME_BYTES_MAX}"
        )
    if piece.size < READ_IN_THREAD_BYTES_MIN:
        return _read_file(piece)
    return await asyncio.to_thread(_read_file, piece)


def _read_file(piece: LogSlice) -> bytes:
    try:
        data = os.pread(piece.file.fileno(), piece.size, piece.position)
    except OSError as error:
        raise KafkaStorageError(f"cannot read {piece.file.path}: {error.strerror}") from error
    if len(data) < piece.size:
        raise KafkaStorageError(f"{piece.file.path} is shorter than its index says")
    return data
