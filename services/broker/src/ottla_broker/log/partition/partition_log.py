"""The log of one partition: appends, reads, and what keeps it in shape. Kafka's UnifiedLog.

Everything here runs on the event loop and never awaits, so each method sees and leaves a consistent log. An
append is one system call: the batch goes to the active segment as it came, behind a new 16-byte prefix. What
blocks for long (fsync, unlinking) is handed to `Background`.

A failed write leaves the log as it was. A failed fsync does not: the kernel may have dropped what it could not
write, so the log refuses further appends until the broker is restarted, and serves reads.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from ottla_broker.log.appends.append_result import AppendResult
from ottla_broker.log.appends.append_validation import AppendOrigin, check_batch, sole_batch
from ottla_broker.log.appends.client_batches import ClientBatches
from ottla_broker.log.appends.unpacking import Found, LongSearch, LookedInto
from ottla_broker.log.background import Background, InlineBackground
from ottla_broker.log.flushing.flush import LogFlush
from ottla_broker.log.flushing.storage_errors import StorageErrors
from ottla_broker.log.loading.log_loading import LoadedLog, LoadRequest, begin_log, load_log
from ottla_broker.log.partition.batch_run import BatchRun, runs_to_append
from ottla_broker.log.partition.epoch_beginning import begin_epoch
from ottla_broker.log.partition.local_log import LocalLog, first_offset_for
from ottla_broker.log.partition.log_compaction import LogCompaction
from ottla_broker.log.partition.log_reader import LogReader
from ottla_broker.log.partition.log_removal import LogRemoval
from ottla_broker.log.partition.log_transactions import Aborted, LogTransactions
from ottla_broker.log.partition.truncation import LogTruncation
from ottla_broker.log.producers.left_open import abort_of_source, left_open, promoted_at
from ottla_broker.log.producers.producer_snapshot import snapshot_offsets, snapshot_path, write_snapshot
from ottla_broker.log.producers.producer_state import ProducerBatch, ProducerEntry, carries_sequence
from ottla_broker.log.producers.verification import VerificationGuard
from ottla_broker.log.segments.log_slice import LogSlice
from ottla_core.errors import DuplicateSequenceNumber, KafkaError, KafkaStorageError, OffsetOutOfRange
from ottla_core.topic_config import TopicConfig
from ottla_core.wire.control_records import TransactionMarker, marker_batch
from ottla_core.wire.record_batch import (
    INT32_MAX,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    Buffer,
    parse_header,
    placed_batch,
)


class PartitionLog:
    """One partition's log.

    Attributes:
        topic_partition: the partition's name.
        topic_id: the topic's id, or None in a directory that never had one.
        directory: the partition's directory.
        config: the topic's settings; changed by `update_config`.
        segments: the files the log consists of.
        log_start_offset: first offset that may be read.
        log_end_offset: offset that the next record gets.
        high_watermark: set by the partition's owner; offsets below it are replicated.
        lost_from: from where on the disk has lost committed records; None if it has lost none.
        may_lack_end: whether the disk may have lost records since the replica was in sync last. It cannot tell by
            itself then whether the log reaches as far as others do.
        leader_epochs: where each leader epoch starts.
        producers: idempotent producers.
        looks_into_records: whether a client's batch may have to be unpacked before it is appended.
        compaction: how far the log is compacted.
        may_have_gap: see `LoadedLog`.
        truncation: what is to be done before and after a truncation.
        transactions: which of them may go on, which have ended, and what readers are told of them.
    """

    __slots__ = (
        "_client_batches", "_errors", "_flush", "_load", "_local", "_reader", "_removal",
        "compaction", "config", "directory", "high_watermark", "leader_epochs", "log_end_offset", "log_start_offset",
        "looks_into_records", "lost_from", "may_have_gap", "may_lack_end", "producers", "segments", "topic_id",
        "topic_partition", "transactions", "truncation",
    )  # fmt: skip

    def __init__(
        self, request: LoadRequest, loaded: LoadedLog, topic_id: UUID | None, background: Background
    ) -> None:
        self.topic_partition = request.topic_partition
        self.topic_id = topic_id
        self.directory = request.directory
        self.segments = loaded.segments
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.high_watermark = loaded.log_start_offset
        self.lost_from = loaded.lost_from
        self.may_have_gap = loaded.may_have_gap
        self.may_lack_end = False
        self.leader_epochs = loaded.leader_epochs
        self.producers = loaded.producers
        self.transactions = LogTransactions(self)
        self._load = request
        self._local = LocalLog(request.directory, loaded.segments, request.config, request.open_files, background)
        self._flush = LogFlush(self, background, loaded.recovery_point, request.now_ms)
        self._errors = StorageErrors(self, self._flush, request.storage_problems)
        self._reader = LogReader(loaded.segments, self._errors.note_unsent)
        self.compaction = LogCompaction(self, self._local, self._reader, self._flush, request.first_dirty_offset)
        self.truncation = LogTruncation(self, self._flush)
        self._removal = LogRemoval(self, self._local, self._reader, self._flush, self._errors)
        self.update_config(request.config)

    @classmethod
    def open(
        cls, request: LoadRequest, topic_id: UUID | None = None, background: Background | None = None
    ) -> "PartitionLog":
        """Load a partition's directory, or begin a log in an empty one; blocks.

        Raises:
            OSError: the disk failed.
        """
        return cls(request, load_log(request), topic_id, background or InlineBackground())

    @classmethod
    def begin(cls, request: LoadRequest, topic_id: UUID, background: Background) -> "PartitionLog":
        """Begin a log in a directory that was made for it just now; blocks and raises OSError."""
        log = cls(request, begin_log(request), topic_id, background)
        log.mark_new()
        return log

    def mark_new(self) -> None:
        """Have the first flush make the log's directory durable, too."""
        self._flush.begun()

    def __repr__(self) -> str:
        return f"PartitionLog({self.directory}, [{self.log_start_offset}, {self.log_end_offset}))"

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments' records."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def first_segment_offset(self) -> int:
        """Base offset of the oldest segment; the log start offset may lie beyond."""
        return self.segments[0].base_offset

    @property
    def recovery_point(self) -> int:
        """Offsets below it are fsynced."""
        return self._flush.recovery_point

    def update_config(self, config: TopicConfig) -> None:
        """Take on changed topic settings; they hold from the next append or check on."""
        self.config = self._local.config = config
        self._client_batches = ClientBatches(self.topic_partition, config)
        self.looks_into_records = self._client_batches.looks_into_records

    @property
    def failure(self) -> str | None:
        """Why the log takes no more appends until the broker is restarted, or None."""
        return self._flush.failure

    def when_failed(self, tell: Callable[[], None]) -> None:
        """Have `tell` called on the event loop when `failure` is set, perhaps more than once; replaces the former."""
        self._flush.on_failure = tell

    # Appending

    async def look_into(self, records: Buffer, now_ms: int) -> LookedInto | None:
        """Do what is long about looking into a client's batch; see `ClientBatches`."""
        return await self._client_batches.look_into(records, now_ms)

    def append_as_leader(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        looked_into: LookedInto | None = None,
        verification: VerificationGuard | None = None,
        transaction_version: int | None = None,
    ) -> AppendResult:
        """Append a batch of a client or a coordinator.

        Args:
            records: exactly one batch of version 2.
            leader_epoch: this leader's epoch.
            now_ms: the clock.
            origin: who has made the batch.
            looked_into: what `look_into` returned for it.
            verification: the guard with which a client's batch may begin a transaction.
            transaction_version: of the transaction that a marker ends.

        Raises:
            KafkaError: the batch breaks a rule or a sequence, or the disk refuses it. The log is as before.
        """
        view = sole_batch(memoryview(records), self.topic_partition)
        header = check_batch(view, self.config, now_ms, self.topic_partition, origin)
        self._flush.check()
        keeps_timestamps = self._client_batches.keeps_timestamps
        if looked_into is not None or self.looks_into_records:
            header, view = self._client_batches.prepared(view, header, origin, looked_into)
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        producer_id, is_transactional = header.producer_id, header.attributes & TRANSACTIONAL_FLAG
        marker: TransactionMarker | None = None
        if producer_id >= 0:
            original: ProducerBatch | None = None
            if not is_transactional:
                original = self.producers.check(header)
            elif origin is AppendOrigin.CLIENT:
                original = self.transactions.check_client_batch(header, verification)
            else:
                original, marker = self.transactions.check_coordinator_batch(view, header, transaction_version)
            if original is not None:
                append_time = NO_TIMESTAMP if keeps_timestamps else original.timestamp
                return AppendResult(
                    original.base_offset, original.last_offset, append_time, self.log_start_offset, True
                )
        append_time = NO_TIMESTAMP if keeps_timestamps else now_ms
        buffers = placed_batch(view, header, base_offset, leader_epoch, append_time)
        timestamp = header.max_timestamp if keeps_timestamps else now_ms
        self._write(buffers, len(view), (base_offset, last_offset), timestamp, now_ms)
        if leader_epoch != self.leader_epochs.latest:
            self.leader_epochs.assign(leader_epoch, base_offset)
        self.log_end_offset = last_offset + 1
        if is_transactional:
            self.transactions.batch_written(header, marker, last_offset, timestamp, now_ms)
        elif producer_id >= 0:
            self.producers.record(header, last_offset, timestamp, now_ms)
        return AppendResult(base_offset, last_offset, append_time, self.log_start_offset, False)

    def void_verifications(self) -> None:
        """Make all guards of transactions void, as what was open when they were taken may have ended elsewhere."""
        self.transactions.verifications.void_all()

    def has_batch(self, records: Buffer) -> bool:
        """Return whether a batch of an idempotent producer is in the log already."""
        try:
            header = parse_header(records)
            return carries_sequence(header) and self.producers.check(header) is not None
        except DuplicateSequenceNumber:
            return True
        except KafkaError:
            return False

    def append_as_follower(self, records: Buffer, *, now_ms: int, leader_epoch: int = INT32_MAX) -> int:
        """Append batches fetched from the leader, which have their offsets and epochs; return the new end.

        Batches that are in the log already are passed over.

        Args:
            records: the batches.
            now_ms: the clock.
            leader_epoch: of the leader that they come from; it can have none of a later one.

        Raises:
            UnknownLeaderEpoch: a batch is of a later leader epoch.
            CorruptMessage, UnsupportedForMessageFormat, InvalidRecord: a batch is damaged or out of order.
            KafkaStorageError: the disk refuses some. In either case batches before those may have been appended.
        """
        self._flush.check()
        try:
            for run in runs_to_append(self, self._local, records, now_ms, leader_epoch):
                self._append_run(run, now_ms)
        except OSError as error:  # whether a segment is full may have to be read
            raise self._errors.of_read("append to", error) from error
        return self.log_end_offset

    @property
    def has_open_transactions(self) -> bool:
        """Whether a transaction is open here, of clients or of a source."""
        return len(self.producers.transactions) > 0

    def abort_left_open(self, *, leader_epoch: int, now_ms: int) -> int:
        """Append the markers that end what a source has left open; return their size in bytes.

        They are appended as followers append them, so that all replicas take in the same.

        Args:
            leader_epoch: of this leader, which has begun in the log, and is of a partition that follows no source.
            now_ms: the clock.

        Raises:
            KafkaStorageError: the disk refuses some.
        """
        producers = left_open(self.producers, promoted_at(self.leader_epochs.entries))
        if not producers:
            return 0
        markers = b"".join(
            marker_batch(abort_of_source(each), now_ms, base_offset=offset, leader_epoch=leader_epoch)
            for offset, each in enumerate(producers, self.log_end_offset)
        )
        self.append_as_follower(markers, now_ms=now_ms, leader_epoch=leader_epoch)
        return len(markers)

    def _append_run(self, run: BatchRun, now_ms: int) -> None:
        first = run.headers[0]
        try:
            if self._must_roll(first.size_bytes, first.last_offset, first.max_timestamp, now_ms):
                self._roll(first_offset_for(first.base_offset, first.last_offset, self.log_end_offset), now_ms)
            self.segments.active.append_run(run.batches, run.headers, self.config.index_interval_bytes)
        except OSError as error:
            raise self._refused_append(error) from error
        batches, position = run.batches, 0
        for header in run.headers:
            if header.leader_epoch > self.leader_epochs.latest:
                begin_epoch(self, self._flush, header.leader_epoch, header.base_offset)
            if header.attributes & TRANSACTIONAL_FLAG:
                self.transactions.replay(header, batches, position, now_ms)
            else:
                self.producers.replay(header, now_ms)
            position += header.size_bytes
        self.log_end_offset = run.end_offset

    def _write(
        self, buffers: tuple[Buffer, ...], size: int, offsets: tuple[int, int], timestamp: int, now_ms: int
    ) -> None:
        """Write one batch, whose first and last offset are given, in a new segment if need be."""
        base_offset, last_offset = offsets
        try:
            if self._must_roll(size, last_offset, timestamp, now_ms):
                self._roll(base_offset, now_ms)
            self.segments.active.append(buffers, size, last_offset, timestamp, self.config.index_interval_bytes)
        except OSError as error:
            raise self._refused_append(error) from error

    def _must_roll(self, size: int, last_offset: int, timestamp: int, now_ms: int) -> bool:
        try:
            return self._local.must_roll(size, last_offset, timestamp, now_ms)
        except OSError as error:  # a first timestamp had to be read, and would have to be for each append
            raise self._errors.of_read("append to", error) from error

    def _refused_append(self, error: OSError) -> KafkaStorageError:
        problem = self._errors.of("append to", error)
        with suppress(OSError):  # without an open file there is nothing to fsync; the next append tries again
            self._flush.examine_disk(error)
        return problem

    # Rolling

    def roll(self, now_ms: int) -> None:
        """Begin a new active segment, unless the present one is empty.

        Raises:
            KafkaStorageError: its files cannot be created.
        """
        with self._errors.told("roll the log of"):
            self._roll(self.log_end_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> None:
        """Roll, keep the producers' state as of the boundary, and have the full segment fsynced."""
        active = self.segments.active
        if active.size_bytes == 0 and active.base_offset == base_offset:
            return
        path = snapshot_path(self.directory, base_offset)
        write_snapshot(path, self.producers, sync=False)
        self._local.roll(base_offset, now_ms)
        self.log_end_offset = base_offset  # or, if the write fails, the next record would lie before its segment
        self._flush.add_snapshot(path)
        if self._flush.failure is None:  # else nothing becomes durable any more, but retention goes on
            self._flush.start(base_offset)

    # Reading

    def read(self, offset: int, *, max_bytes: int, end_offset: int, at_least_one_batch: bool) -> LogSlice | None:
        """Return the whole batches from the one that holds `offset`, of which all lie below `end_offset`.

        Args:
            offset: where to start; an offset inside a batch gives the whole batch.
            max_bytes: the most to return.
            end_offset: offset to stop at; see `ReadIsolation`.
            at_least_one_batch: return the first batch even if it is larger than `max_bytes`.

        Raises:
            OffsetOutOfRange: the offset is below the log's start or above its end.
            CorruptMessage: the disk has damaged a batch's header since it was written or recovered.
            KafkaStorageError: the disk failed.
        """
        if offset >= end_offset or not self.log_start_offset <= offset <= self.log_end_offset:
            if self.log_start_offset <= offset <= self.log_end_offset:
                return None
            raise OffsetOutOfRange(
                f"Offset {offset} is outside {self.topic_partition}, which has"
                f" [{self.log_start_offset}, {self.log_end_offset}]"
            )
        try:
            return self._reader.read(
                offset,
                max_bytes=max_bytes,
                end_offset=end_offset,
                log_end_offset=self.log_end_offset,
                at_least_one_batch=at_least_one_batch,
            )
        except OSError as error:
            raise self._errors.of_read("read", error) from error

    def reading(self) -> AbstractContextManager[None]:
        """Turn what the disk refuses of a slice that is read in the body into an error for clients.

        The log takes no more records then, so that another replica takes over; so this is for the event loop.
        """
        return self._errors.reading()

    def forget_replicated_transactions(self) -> None:
        """Forget the ended transactions whose markers are replicated; readers do so too, where anybody reads."""
        transactions = self.producers.transactions
        if transactions.may_be_unstable:
            transactions.forget_replicated(self.high_watermark)

    @property
    def last_stable_offset(self) -> int:
        """Up to where readers of committed records may read; see `LogTransactions`."""
        if not self.producers.transactions.may_be_unstable:
            return self.high_watermark
        return self.transactions.last_stable_offset

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[Aborted]:
        """Return producer id and first offset of the aborted transactions that a reader of a range has to know.

        They are in the order of their first offsets. The range has to lie below the last stable offset.

        Raises:
            KafkaStorageError: the disk failed.
        """
        with self._errors.reading():
            return self.transactions.aborted(start_offset, end_offset)

    def aborted_in(self, offset: int, records: LogSlice) -> list[Aborted]:
        """Return the same for what a read from an offset has just returned.

        Raises:
            KafkaStorageError: the disk failed.
        """
        with self._errors.reading():
            return self.transactions.aborted_in(offset, records)

    def contiguous_end(self, offset: int) -> int:
        """Return up to where the log has every offset from one on, or that is known so far; itself in a gap.

        Raises:
            CorruptMessage: the disk has damaged a batch's header since it was written or recovered.
            KafkaStorageError: the disk failed.
        """
        with self._errors.reading():
            return self._reader.contiguous_end(offset)

    def offset_for_timestamp(self, timestamp_ms: int) -> Found | LongSearch | None:
        """Return the first record at or after a time, or what is long about searching for it.

        Raises:
            KafkaStorageError: the disk failed.
        """
        with self._errors.reading("search"):
            return self._reader.first_at_timestamp(timestamp_ms, self.log_start_offset)

    def max_timestamp(self) -> Found | LongSearch | None:
        """Return the record with the largest timestamp, or what is long about searching for it.

        Raises:
            KafkaStorageError: the disk failed.
        """
        with self._errors.reading("search"):
            return self._reader.largest_timestamp(self.log_start_offset)

    # Leader epochs

    def start_leader_epoch(self, epoch: int) -> None:
        """Note that this leader's epoch begins at the log's end."""
        if epoch > self.leader_epochs.latest:
            begin_epoch(self, self._flush, epoch, self.log_end_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest known epoch up to `epoch` and where it ends; (-1, -1) if there is none."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # Durability

    @property
    def flush_is_due(self) -> bool:
        """Whether `flush.messages` demands an fsync before an append is acknowledged."""
        return self.log_end_offset - self._flush.recovery_point >= self.config.flush_messages

    async def flushed(self, through_offset: int) -> None:
        """Return when everything below `through_offset` is as durable as the topic demands.

        Returns at once unless `flush.messages` records wait for an fsync; then all who wait share one.

        Raises:
            KafkaStorageError: the fsync failed, or one before.
            NotLeaderOrFollower: the log was truncated, deleted or closed meanwhile.
        """
        await self._flush.flushed(through_offset, unflushed_max=self.config.flush_messages)

    def flush(self) -> None:
        """Fsync everything appended so far; blocks.

        Raises:
            KafkaStorageError: the fsync failed; the log takes no more appends.
        """
        self._flush.flush()

    def flush_if_due(self, now_ms: int) -> None:
        """Begin an fsync in the background if `flush.ms` have passed since the last one.

        Raises:
            KafkaStorageError: the files cannot be opened.
        """
        self._flush.start_if_due(now_ms, self.config.flush_ms)

    # Removing

    def delete_records_before(self, offset: int) -> int:
        """Move the log's start; see `LogRemoval`."""
        return self._removal.delete_records_before(offset)

    def enforce_retention(self, now_ms: int) -> int:
        """Delete the segments that retention lets go; see `LogRemoval`."""
        return self._removal.enforce_retention(now_ms)

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Remove everything from `offset` on; see `LogRemoval`."""
        self._removal.truncate_to(offset, now_ms)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Remove everything and go on at `offset`; see `LogRemoval`."""
        self._removal.truncate_fully_and_start_at(offset, now_ms)

    # Moving

    @property
    def may_relocate(self) -> bool:
        """Whether no flush is under way that would be about the former directory."""
        return self._flush.is_idle

    def relocate(self, directory: Path, durable_offset: int) -> None:
        """Go on in another directory, which has a copy of all files, fsynced for offsets below `durable_offset`."""
        self._reader.forget()
        self._local.relocate(directory)
        self._flush.relocated(directory, durable_offset)
        self._load = replace(self._load, directory=directory)
        self.directory = directory

    # Producers

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that have been silent too long, and guards that nobody uses; return how many producers."""
        self.transactions.verifications.sweep()
        return self.producers.expire(now_ms, self._load.producer_expiration_ms)

    def active_producers(self) -> list[ProducerEntry]:
        """Return the producers known here, for DescribeProducers."""
        return list(self.producers)

    # Closing

    @property
    def needs_flush(self) -> bool:
        """Whether something of the log is worth an fsync before it is closed.

        A log that is empty and always was is not: thousands of them would hold up a stop. It is begun anew if a power
        failure takes it, and it gets its leader epoch from the next election, as after a kill.
        """
        if not self.log_end_offset and self._flush.is_settled:
            return False
        return self.recovery_point < self.log_end_offset or self.leader_epochs.is_dirty or not self._flush.is_settled

    def close(self) -> None:
        """Flush, snapshot the producers, and let go of all files; blocks.

        Raises:
            KafkaStorageError: not everything could be made durable.
        """
        self._flush.check()
        with self._errors.told("close"):
            self.segments.active.become_inactive()
            if self.log_end_offset > max(snapshot_offsets(self.directory), default=self.first_segment_offset):
                write_snapshot(snapshot_path(self.directory, self.log_end_offset), self.producers, sync=True)
        if self.needs_flush:
            self.flush()
        self.abandon()

    async def wait_until_idle(self) -> None:
        """Return when no flush is under way; one may begin at the next await."""
        await self._flush.wait_until_idle()

    def abandon(self) -> None:
        """Let go of all files without writing anything; the directory may soon be another log's."""
        self._flush.close()
        self._reader.forget()
        self._local.release()
