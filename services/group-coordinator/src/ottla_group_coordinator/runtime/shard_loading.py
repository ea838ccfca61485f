"""Loading a shard: its partition is read from the beginning and every record is replayed.

While one chunk is replayed, the next is on its way. Replaying takes CPU that other shards need, so it pauses every
few milliseconds. Records that cannot be understood are passed over, those of unknown types silently (they belong to
features of Kafka that are not here), damaged ones with an error in the log: one record must not take all groups of
a shard out of service.

Records of transactions and their ends are replayed in the order of the log, as they were decided. A batch of a
transaction's producer tells of its epoch even when compaction has left none of its records.
"""

import asyncio
import struct
import time

import structlog

from ottla_core.background import start_awaited
from ottla_core.errors import InvalidRecord, OttlaError
from ottla_core.wire.control_records import read_marker
from ottla_core.wire.record_batch import (
    HEADER_SIZE_BYTES,
    LAST_OFFSET_DELTA_OFFSET,
    LOG_OVERHEAD_BYTES,
    RecordBatchHeader,
    iterate_batches,
)
from ottla_core.wire.records import Record, iterate_records
from ottla_group_coordinator.runtime.remote_shard_log import RemoteShardLog, SequenceLost
from ottla_group_coordinator.runtime.state_machine import RecordFormat, StateMachine, TransactionalStateMachine
from ottla_group_coordinator.runtime.turn import CoordinatorRecord, TransactionProducer
from ottla_proto.gen.ottla import group_relay_pb2 as pb

SLICE_S = 0.005
"""How long records are replayed before others may run."""

ITEMS_PER_CLOCK_LOOK = 64
"""Batches and records between two looks at the clock."""

EMPTY_READ_PAUSE_S = 0.05
"""Between reads while the leader does not show yet what it has stored."""

STALL_TIMEOUT_S = 3.0
"""How long a load may make no progress; then it makes room for the loading of other shards, and begins anew."""

_OFFSET_AND_LENGTH = struct.Struct(">qi")
_INT32 = struct.Struct(">i")

log = structlog.get_logger("shard loading")


class LoadStalled(OttlaError):
    """The leader cannot be reached, or does not show what it has stored."""


class ShardLoader:
    """Reads one shard's log up to its end.

    Args:
        shard_log: the log; it has been fenced, so nobody writes behind its `end_offset`.
        shard: takes the records.
        record_format: how the records are read.
        bytes_max: how much is read at a time.

    Attributes:
        record_count: records that were replayed.
        unreadable_count: records that were passed over because they are damaged.
        newest_timestamp_ms: of the newest batch that has records; None if none has.
    """

    def __init__(
        self, shard_log: RemoteShardLog, shard: StateMachine, record_format: RecordFormat, *, bytes_max: int
    ) -> None:
        self.record_count = 0
        self.unreadable_count = 0
        self.newest_timestamp_ms: int | None = None
        self._log = shard_log
        self._shard = shard
        self._transactions = shard if isinstance(shard, TransactionalStateMachine) else None
        self._decode_key = record_format.decode_key
        self._decode_value = record_format.decode_value
        self._bytes_max = bytes_max
        self._slice_end_s = 0.0

    async def load(self) -> None:
        """Replay everything.

        Raises:
            OwnershipLost: the shard may have another owner.
            SequenceLost: somebody has written behind the fence. It was not ours, but that of an earlier life of the
                cluster, if etcd was restored from a backup.
            LoadStalled: there has been no progress for a while; that the leader shows too little is noted.
            CorruptMessage, InvalidRecord, UnsupportedCompressionType: a batch cannot be read.
        """
        end_offset = self._log.end_offset
        position = 0
        chunk: pb.LogRecords | None = None
        reading = self._read(position)
        stalled_at_s = time.monotonic() + STALL_TIMEOUT_S
        try:
            while True:
                try:
                    async with asyncio.timeout(stalled_at_s - time.monotonic()):
                        chunk = await reading
                except TimeoutError:
                    raise self._stalled(chunk, end_offset) from None
                if chunk.high_watermark > end_offset:
                    raise SequenceLost(f"the log of shard {self._log.shard} goes on behind its owner's fence")
                after = next_offset(chunk.batches) or max(position, chunk.log_start_offset)
                if after >= end_offset:
                    break
                if after == position:
                    if time.monotonic() >= stalled_at_s:
                        raise self._stalled(chunk, end_offset)
                    await asyncio.sleep(EMPTY_READ_PAUSE_S)
                reading = self._read(after)
                if after > position:
                    await self._replay(chunk.batches, position)
                    position, stalled_at_s = after, time.monotonic() + STALL_TIMEOUT_S
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        await self._replay(chunk.batches, position)

    def _stalled(self, last_seen: pb.LogRecords | None, end_offset: int) -> LoadStalled:
        if last_seen is None:
            return LoadStalled(f"no leader has let shard {self._log.shard} be read")
        if last_seen.high_watermark < end_offset:
            self._log.doubt_end()
        return LoadStalled(
            f"the log of shard {self._log.shard} has shown {last_seen.high_watermark} of {end_offset} offsets"
        )

    def _read(self, offset: int) -> asyncio.Task[pb.LogRecords]:
        return start_awaited("shard read", self._log.read(offset, self._bytes_max))

    async def _replay(self, batches: bytes, position: int) -> None:
        """Replay the records of whole batches from an offset on."""
        self._slice_end_s = time.perf_counter() + SLICE_S
        untimed = 0
        for header, batch in iterate_batches(batches):
            untimed += 1
            has_records = header.record_count and not header.is_control
            if has_records:
                self.newest_timestamp_ms = header.max_timestamp
            transaction = None
            if header.is_transactional and header.last_offset >= position:
                transaction = self._replay_producer(header, batch)
            records = iterate_records(batch, header) if has_records else ()
            for record in records:
                if record.offset >= position:
                    self._replay_record(record, transaction)
                untimed += 1
                if untimed >= ITEMS_PER_CLOCK_LOOK:
                    untimed = 0
                    await self._give_way()
            if untimed >= ITEMS_PER_CLOCK_LOOK:
                untimed = 0
                await self._give_way()

    def _replay_producer(self, header: RecordBatchHeader, batch: memoryview) -> TransactionProducer | None:
        """Replay what a batch of a transaction says besides its records; return the producer that they belong to."""
        if self._transactions is None:
            return None
        if not header.is_control or not header.record_count:
            producer = TransactionProducer(header.producer_id, header.producer_epoch)
            self._transactions.replay_producer(producer, header.max_timestamp)
            return producer
        try:
            marker = read_marker(batch, header)
        except InvalidRecord as error:
            self._pass_over(header.base_offset, error)
        else:
            if marker is not None:
                self._transactions.replay_marker(marker, header.max_timestamp)
        return None

    def _pass_over(self, offset: int, error: InvalidRecord) -> None:
        self.unreadable_count += 1
        log.error("record passed over", shard=str(self._log.shard), offset=offset, error=str(error))

    def _replay_record(self, record: Record, transaction: TransactionProducer | None) -> None:
        if record.key is None:
            return
        try:
            key = self._decode_key(record.key)
            if key is None:
                return
            value = None if record.value is None else self._decode_value(key, record.value)
        except InvalidRecord as error:
            self._pass_over(record.offset, error)
            return
        if transaction is None or self._transactions is None:
            self._shard.replay(CoordinatorRecord(key, value))
        else:
            self._transactions.replay_in_transaction(CoordinatorRecord(key, value), transaction)
        self.record_count += 1

    async def _give_way(self) -> None:
        if time.perf_counter() >= self._slice_end_s:
            await asyncio.sleep(0)
            self._slice_end_s = time.perf_counter() + SLICE_S


def next_offset(batches: bytes) -> int | None:
    """Return the offset after the last whole batch, or None if there is none; only lengths are looked at."""
    position, found = 0, None
    end = len(batches)
    while end - position >= HEADER_SIZE_BYTES:
        base_offset, length = _OFFSET_AND_LENGTH.unpack_from(batches, position)
        if length <= 0 or position + LOG_OVERHEAD_BYTES + length > end:
            break
        found = base_offset + _INT32.unpack_from(batches, position + LAST_OFFSET_DELTA_OFFSET)[0] + 1
        position += LOG_OVERHEAD_BYTES + length
    return found
