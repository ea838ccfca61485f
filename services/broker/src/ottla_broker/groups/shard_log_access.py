"""What a coordinator does to the log of a shard: append a batch with acks=all, and read.

The log fences former owners: each owner writes with a higher producer epoch than the one before, beginning with a
batch without records, and the log refuses an epoch below the last it has seen. What this broker knows of the cluster
fences too, for the log forgets producers that have been silent for a day. So does the newest owner that has written
through this broker, which may not have heard of it yet: to the log, an owner under a new producer id is no successor.

What belongs to transactions bears their producers' ids, and no sequence by which the log would know it again. It
comes along with a batch of the owner and is appended right before it, if that one is in its turn.

Whatever goes wrong is an answer with a Kafka error code; the stream goes on.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from uuid import UUID

import structlog
from kio.schema.errors import ErrorCode

from ottla_broker.log.appends.append_result import AppendResult
from ottla_broker.log.appends.append_validation import AppendOrigin
from ottla_broker.partition import Partition
from ottla_broker.partition_table import PartitionTable
from ottla_core.clock import Clock
from ottla_core.cluster.state.model import ClusterState
from ottla_core.errors import (
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTransactionState,
    KafkaError,
    OffsetOutOfRange,
    RecordListTooLarge,
    RequestTimedOut,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)
from ottla_core.rpc.frame_queue import FRAME_BYTES_MAX
from ottla_core.rpc.group_relay import shard_in
from ottla_core.shards import SHARDED_TOPICS
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.record_batch import RecordBatchHeader, parse_header
from ottla_proto.gen.ottla import group_relay_pb2 as pb

READ_BYTES_MAX = 4 * 1024 * 1024
"""The most that one answer carries, a single larger batch aside."""

READ_IN_THREAD_BYTES_MIN = 128 * 1024
"""Less than this is read at once: a thread would cost more than the page cache does."""

REPLICATION_TIMEOUT_SECONDS = 10.0
"""How long an append may wait for the other replicas; the coordinator gives up before."""

JUDGED_BY_SHARD = 0
"""In place of a transaction's version: the shard has seen to it that the marker's epoch goes with that version. One
that is in the log already, of an append that was cut off, is taken again as of this version."""

NO_OFFSET = -1
NO_WRITER = (-1, -1)

logger = structlog.get_logger("groups")


class SeenLaterEpoch(InvalidProducerEpoch):
    """The log itself has seen a later owner than the batch's: `epoch`."""

    def __init__(self, message: str, epoch: int) -> None:
        super().__init__(message)
        self.epoch = epoch


class ShardLogAccess:
    """The partitions of sharded topics that this broker leads, as coordinators use them.

    Attributes:
        append_count: batches that were appended.
        read_count: answers with records.
    """

    def __init__(self, partitions: PartitionTable, state: Callable[[], ClusterState], clock: Clock) -> None:
        self._partitions = partitions
        self._state = state
        self._clock = clock
        self._newest_writers: dict[TopicPartition, tuple[int, int]] = {}
        self.append_count = 0
        self.read_count = 0

    def ends(self, question: pb.LogEndsQuestion) -> pb.LogEnds:
        """Return how far consumers may read partitions of any topics, as far as they are led here."""
        found = pb.LogEnds()
        for topic in question.topics:
            topic_id = UUID(bytes=topic.topic_id)
            for index in topic.partitions:
                try:
                    end = self._partitions.leader_of(topic_id, index).log.high_watermark
                except KafkaError:
                    end = NO_OFFSET
                found.high_watermarks.append(end)
        return found

    def append(self, request: pb.LogAppend) -> pb.LogAppended | Coroutine[None, None, pb.LogAppended]:
        """Append one batch; answers when every in-sync replica has it, and the disk where that is asked for.

        The batch is in the log when this returns; the answer is there too, or what is to be awaited for it.
        """
        shard = shard_in(request)
        try:
            partition, appended = self._append(shard, request.batch, request.preceding_batches)
            end_offset = appended.last_offset + 1
            # Begun right here: once others have had their turn, the offset may be that of another leader's record.
            replication = None if partition.log.high_watermark >= end_offset else _Replication(partition, end_offset)
            is_flush_due = partition.log.flush_is_due
        except Exception as error:  # noqa: BLE001  an answer, whatever it is
            return _refusal(shard, error)
        if replication is None and not is_flush_due:
            return self._appended(appended)
        return self._when_safe(partition, appended, replication, is_flush_due=is_flush_due)

    async def _when_safe(
        self, partition: Partition, appended: AppendResult, replication: "_Replication | None", *, is_flush_due: bool
    ) -> pb.LogAppended:
        try:
            if is_flush_due:
                await partition.log.flushed(appended.last_offset + 1)
            if replication is not None:
                await replication.finish()
        except Exception as error:  # noqa: BLE001  an answer, whatever it is
            return _refusal(partition.topic_partition, error)
        finally:
            if replication is not None:
                replication.stop()
        return self._appended(appended)

    def _appended(self, appended: AppendResult) -> pb.LogAppended:
        self.append_count += 1
        return pb.LogAppended(base_offset=appended.base_offset)

    def _append(
        self, shard: TopicPartition, batch: bytes, preceding: Sequence[bytes]
    ) -> tuple[Partition, AppendResult]:
        """Append one batch to this broker's log, and what precedes it; finds it where it had been appended before.

        Nothing here waits: another leader or owner, or the same batch again, must not come in between.

        Raises:
            KafkaError: it was not appended.
        """
        partition = self._leader_of(shard)
        header = parse_header(batch)
        self._check_owner(shard, header)
        try:
            # Without the look at the sequence, what is there would be appended again, or what has another before it.
            if preceding and partition.log.producers.check(header) is None:
                self._append_preceding(partition, preceding)
            appended = self._append_one(partition, batch)
        except InvalidProducerEpoch as error:
            entry = partition.log.producers.get(header.producer_id)
            raise error if entry is None else SeenLaterEpoch(error.message, entry.producer_epoch) from error
        self._newest_writers[shard] = header.producer_id, header.producer_epoch
        return partition, appended

    def _append_one(self, partition: Partition, batch: bytes) -> AppendResult:
        return partition.append(
            batch,
            now_ms=self._clock.time_ms(),
            all_in_sync=True,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=JUDGED_BY_SHARD,
        )

    def _append_preceding(self, partition: Partition, batches: Sequence[bytes]) -> None:
        """Append what belongs to transactions.

        Raises:
            InvalidRecord: a batch is of no transaction, or the log refuses it for good; the log's own errors would be
                taken for the owner's.
            KafkaError: as `Partition.append`; those before are appended.
        """
        if not all(parse_header(batch).is_transactional for batch in batches):
            raise InvalidRecord("what precedes the batch is of no transaction")
        for batch in batches:
            try:
                self._append_one(partition, batch)
            except (InvalidProducerEpoch, InvalidTransactionState, TransactionCoordinatorFenced) as error:
                raise InvalidRecord(f"what precedes the batch is refused: {error.message}") from error

    def _leader_of(self, shard: TopicPartition) -> Partition:
        """Return a shard's partition.

        Raises:
            UnknownTopicOrPartition: the topic is no coordinator's.
            KafkaError: this broker does not lead the partition.
        """
        if shard.topic not in SHARDED_TOPICS:
            raise UnknownTopicOrPartition(f"{shard.topic} is not sharded among coordinators")
        return self._partitions.leader_of(*shard)

    def _check_owner(self, shard: TopicPartition, header: RecordBatchHeader) -> None:
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
                f"{shard} is written by {owner}, not by producer {writer[0]} with epoch {writer[1]}"
            )

    async def read(self, request: pb.LogRead) -> pb.LogRecords:
        """Read whole batches up to the high watermark; none where that has been reached."""
        answer = pb.LogRecords(log_start_offset=NO_OFFSET, high_watermark=NO_OFFSET)
        shard = shard_in(request)
        try:
            partition = self._leader_of(shard)
            answer.log_start_offset = partition.log.log_start_offset
            answer.high_watermark = partition.log.high_watermark
            answer.batches = await _read(partition, request.offset, request.bytes_max)
            self.read_count += 1
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code.value, error.message
        except Exception:
            logger.exception("read of a shard failed unexpectedly", shard=str(shard))
            answer.error_code = ErrorCode.unknown_server_error.value
            answer.error_message = "the broker failed unexpectedly; its log says why"
        return answer


def _refusal(shard: TopicPartition, error: Exception) -> pb.LogAppended:
    """Return the answer to an append that failed, or of which nobody can tell whether it is safe."""
    seen_epoch: int | None = None
    if isinstance(error, KafkaError):
        code, message = error.code, error.message
        if isinstance(error, SeenLaterEpoch):
            seen_epoch = error.epoch
        else:
            logger.debug("append to a shard refused", shard=str(shard), code=code.name, error=message)
    else:
        logger.error("append to a shard failed unexpectedly", shard=str(shard), exc_info=error)
        code, message = ErrorCode.unknown_server_error, "the broker failed unexpectedly; its log says why"
    return pb.LogAppended(
        error_code=code.value, error_message=message, base_offset=NO_OFFSET, seen_producer_epoch=seen_epoch
    )


class _Replication:
    """Waits until the in-sync replicas of a partition have everything below an offset."""

    def __init__(self, partition: Partition, end_offset: int) -> None:
        self._partition = partition
        self._end_offset = end_offset
        self._replicated: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        partition.when_replicated(end_offset, self._notify, leader_epoch=partition.state.leader_epoch)

    def _notify(self, error: KafkaError | None) -> None:
        if not self._replicated.done():
            self._replicated.set_result(None) if error is None else self._replicated.set_exception(error)

    async def finish(self) -> None:
        """Return when they have it.

        Raises:
            NotLeaderOrFollower: this broker leads no longer; the batch may get lost.
            NotEnoughReplicasAfterAppend: too few replicas are in sync by now.
            RequestTimedOut: the others did not fetch it in time.
        """
        try:
            async with asyncio.timeout(REPLICATION_TIMEOUT_SECONDS):
                await self._replicated
        except TimeoutError:
            place = f"{self._partition.topic_partition} was not replicated up to {self._end_offset}"
            raise RequestTimedOut(f"{place} in time") from None

    def stop(self) -> None:
        """Wait no longer."""
        self._replicated.cancel()
        self._partition.no_longer_wait(self._notify)


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
    with log.reading():
        return piece.read() if piece.size < READ_IN_THREAD_BYTES_MIN else await asyncio.to_thread(piece.read)
