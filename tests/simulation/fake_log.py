"""The log of a simulated replica, in memory, with the interface that `Partition` uses of `PartitionLog`.

A batch is one record here, and a record is its leader epoch and a number that no other record has. The leader epochs
are kept by the real `LeaderEpochs`. What a log holds survives kill -9, as the page cache does; of high watermark and
leader epochs only what was written does, and an epoch without records may be forgotten. A log that is opened again
reads its epochs from the records behind the recovery point, as `log_loading.py` does.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from ottla_broker.log.appends.append_result import AppendResult
from ottla_broker.log.files.leader_epoch_checkpoint import EpochEntry, EpochRun, LeaderEpochs
from ottla_core.errors import KafkaStorageError, OffsetOutOfRange, UnknownLeaderEpoch
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.record_batch import INT32_MAX

Record = tuple[int, int]
"""Leader epoch and number."""


class Records(tuple[tuple[int, Record], ...]):
    """Consecutive records with their offsets: what a fetch brings."""

    __slots__ = ()

    @property
    def size(self) -> int:
        """How many there are: here a record counts as a byte."""
        return len(self)


NO_RECORDS = Records()


class InvariantViolated(AssertionError):
    """The cluster did what it must never do."""


class LogObserver(Protocol):
    """Who checks what happens to logs."""

    def leader_appended(self, log: "SimulatedLog", offset: int, record: Record) -> None:
        """A leader has written a record."""

    def follower_appended(self, log: "SimulatedLog") -> None:
        """A follower takes over what a leader has answered."""

    def is_cut_at_loss(self, log: "SimulatedLog") -> None:
        """A log is about to be cut where its disk has lost records, so that they are copied again."""

    def truncated(self, log: "SimulatedLog", offset: int) -> None:
        """Everything from an offset on is gone."""

    def high_watermark_moved(self, log: "SimulatedLog", former: int) -> None:
        """The high watermark is another one."""


@dataclass(slots=True)
class _Kept:
    """What of a log's state is not derived from its records, and is on the disk.

    Attributes:
        leader_epochs: the leader epoch checkpoint, which is written before the recovery point moves on.
    """

    high_watermark: int = 0
    recovery_point: int = 0
    leader_epochs: tuple[EpochEntry, ...] = ()

    def announce_truncation(self, offset: int) -> None:
        """Let nothing on the disk speak of what is about to be cut off."""
        self.high_watermark = min(self.high_watermark, offset)
        self.recovery_point = min(self.recovery_point, offset)


class SimulatedTruncation:
    """What is written before a cut and after it, which takes a disk's time.

    Attributes:
        work: takes that time; set by the store that has the log open.
    """

    def __init__(self) -> None:
        self.work: Callable[[], Awaitable[None]]
        self.is_settled = True

    @asynccontextmanager
    async def prepared(self, _offset: int) -> AsyncIterator[None]:
        """Write what has to be on the disk before; a cut is to be settled after it."""
        await self.work()
        self.is_settled = False
        yield

    async def settled(self) -> None:
        """Write what has to be on the disk after."""
        await self.work()
        self.is_settled = True


class SimulatedLog:
    """One replica's log.

    Attributes:
        broker_id: whose it is.
        records: all records ever kept, by offset; None where they were deleted before this replica got them, or lost.
        durable_end_offset: records below it survive a loss of power.
        failure: why nothing is appended any more in this life of its broker.
        lost_from: from where on its disk has lost records; None if it has lost none.
        may_lack_end: whether its disk may have lost records since this replica was in sync last.
        is_cut_at_loss: whether it is being cut where records are lost, to copy them again.
    """

    def __init__(
        self, topic_partition: TopicPartition, broker_id: int, observer: LogObserver, topic_id: UUID
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.broker_id = broker_id
        self.config = TopicConfig()
        self.records: list[Record | None] = []
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.durable_end_offset = 0
        self.leader_epochs = LeaderEpochs()
        self._observer = observer
        self._high_watermark = 0
        self._kept = _Kept()
        self.truncation = SimulatedTruncation()
        self.flush_is_due = False
        self.failure: str | None = None
        self.lost_from: int | None = None
        self.may_lack_end = False
        self.is_cut_at_loss = False
        self._tell_failure: Callable[[], None] = lambda: None

    @property
    def high_watermark(self) -> int:
        """As the partition has set it."""
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        former, self._high_watermark = self._high_watermark, offset
        self._observer.high_watermark_moved(self, former)

    def update_config(self, config: TopicConfig) -> None:
        """Take on changed topic settings."""
        self.config = config

    # Crashes

    def checkpoint(self) -> None:
        """Flush, and write recovery point and high watermark to the disk."""
        if self.failure is None:
            self._flush()
        self._kept.high_watermark = self._high_watermark

    def _flush(self) -> None:
        """Have records and leader epochs on the disk, and the recovery point behind them."""
        self.durable_end_offset = self.log_end_offset
        self._kept.recovery_point = self.log_end_offset
        self._kept.leader_epochs = self.leader_epochs.entries

    @property
    def checkpointed_high_watermark(self) -> int:
        """As the disk has it."""
        return self._kept.high_watermark

    def reopen(self, *, forget_empty_epochs: bool) -> None:
        """Be what a broker finds that starts again after kill -9."""
        self._tell_failure = lambda: None
        self.truncation = SimulatedTruncation()
        self._high_watermark = max(min(self._kept.high_watermark, self.log_end_offset), self.log_start_offset)
        unwritten = () if forget_empty_epochs else (self.leader_epochs.entries[-1:])
        self.leader_epochs = LeaderEpochs(self._kept.leader_epochs)
        self.leader_epochs.agree_with(self._epoch_runs(self._kept.recovery_point))
        self.leader_epochs.truncate_from_end(self.log_end_offset)
        self.leader_epochs.truncate_from_start(self.log_start_offset, self.log_end_offset)
        for entry in unwritten:
            if entry.start_offset == self.log_end_offset:
                self.leader_epochs.assign(*entry)
        self._check_epochs()

    def when_failed(self, tell: Callable[[], None]) -> None:
        """Have `tell` called when an fsync has failed."""
        self._tell_failure = tell

    def fail(self) -> None:
        """An fsync fails: nothing is appended any more, and the next life may lack what was not durable yet."""
        self.failure = "an fsync has failed"
        self._tell_failure()

    def _check_can_append(self) -> None:
        if self.failure is not None:
            raise KafkaStorageError(self.failure)

    def _epoch_runs(self, offset: int) -> list[EpochRun]:
        records = enumerate(self.records[offset:], offset)
        return [EpochRun(record[0], at, at) for at, record in records if record is not None]

    def _check_epochs(self) -> None:
        for offset in range(self.log_start_offset, self.log_end_offset):
            record = self.records[offset]
            if record is not None and self.leader_epochs.epoch_at(offset) != record[0]:
                raise InvariantViolated(
                    f"leader epochs are those of the records: broker {self.broker_id} takes {offset} to be of"
                    f" {self.leader_epochs.epoch_at(offset)}, it is of {record[0]}"
                )

    def lose_power(self, end_offset: int) -> None:
        """Lose what was not durable yet; something between `durable_end_offset` and the end remains."""
        if end_offset < self.log_end_offset:
            self._high_watermark = min(self._high_watermark, end_offset)
            self._end_at(end_offset)

    def lose_end(self, end_offset: int) -> None:
        """Lose what was durable, and find that out by the checkpoints."""
        self.lose_power(end_offset)
        self._kept.recovery_point = 0  # all is recovered that ends before its recovery point
        self.lost_from = end_offset

    def lose_middle(self, offset: int, end_offset: int) -> None:
        """Lose what was durable, and find that out by what is behind it."""
        self.records[offset:end_offset] = [None] * (end_offset - offset)
        self.lost_from = offset

    # Appending

    @property
    def last_stable_offset(self) -> int:
        """There are no transactions."""
        return self._high_watermark

    @property
    def has_open_transactions(self) -> bool:
        """Likewise."""
        return False

    def void_verifications(self) -> None:
        """There are none."""

    def forget_replicated_transactions(self) -> None:
        """There are none."""

    def append_as_leader(
        self, records: Sequence[int], *, leader_epoch: int, now_ms: int, **of_clients_and_transactions: Any
    ) -> AppendResult:
        """Append new records, given as numbers."""
        del now_ms, of_clients_and_transactions
        self._check_can_append()
        first = self.log_end_offset
        self.leader_epochs.assign(leader_epoch, first)
        for number in records:
            record = (leader_epoch, number)
            self.records.append(record)
            self.log_end_offset += 1
            self._observer.leader_appended(self, self.log_end_offset - 1, record)
        return AppendResult(first, self.log_end_offset - 1, -1, self.log_start_offset, False)

    def has_batch(self, records: Sequence[int]) -> bool:
        """Return False: these producers are not idempotent."""
        del records
        return False

    def append_as_follower(self, records: Records, *, now_ms: int, leader_epoch: int = INT32_MAX) -> int:
        """Append what was fetched from a leader of some epoch; passes over what is there already."""
        del now_ms
        self._check_can_append()
        self._observer.follower_appended(self)
        for offset, record in records:
            if offset < self.log_end_offset:
                continue
            if record[0] > leader_epoch:
                raise UnknownLeaderEpoch(f"record {offset} is of epoch {record[0]}, the leader of {leader_epoch}")
            if offset != self.log_end_offset:
                raise InvariantViolated(f"logs have no gaps: record {offset} comes after {self.log_end_offset - 1}")
            if record[0] > self.leader_epochs.latest:
                self.leader_epochs.assign(record[0], offset)
            self.records.append(record)
            self.log_end_offset += 1
        return self.log_end_offset

    # Reading

    def read(self, offset: int, *, max_bytes: int, end_offset: int, at_least_one_batch: bool) -> Records | None:
        """Return at most `max_bytes` records from an offset on."""
        del at_least_one_batch
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(f"{offset} is not in [{self.log_start_offset}, {self.log_end_offset}]")
        if offset >= end_offset:
            return None
        end = min(end_offset, offset + max_bytes)
        return Records(
            (at, record) for at, record in enumerate(self.records[offset:end], offset) if record is not None
        )

    def contiguous_end(self, offset: int) -> int:
        """Return up to where the log has every offset from one on."""
        return next(
            (at for at in range(offset, self.log_end_offset) if self.records[at] is None), self.log_end_offset
        )

    # Leader epochs

    def start_leader_epoch(self, epoch: int) -> None:
        """Note that this leader's epoch begins at the log's end."""
        if epoch > self.leader_epochs.latest:
            self.leader_epochs.assign(epoch, self.log_end_offset)
            # Any moment may be that of a flush; right here an epoch gets to the disk that others lack.
            if self.failure is None:
                self._flush()

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest known epoch up to `epoch` and where it ends; (-1, -1) if there is none."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # Removing

    def delete_records_before(self, offset: int) -> int:
        """Move the log's start."""
        assert offset <= self._high_watermark
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset, self.log_end_offset)
        return self.log_start_offset

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Remove everything from `offset` on."""
        self.is_cut_at_loss = offset == self.lost_from
        if self.is_cut_at_loss:
            self._observer.is_cut_at_loss(self)
        if self.lost_from is not None and offset <= self.lost_from:
            self.lost_from = None
        if offset >= self.log_end_offset:
            self.leader_epochs.truncate_from_end(offset)
        elif offset < self.log_start_offset:
            self.truncate_fully_and_start_at(offset, now_ms)
        else:
            self._kept.announce_truncation(offset)
            self._end_at(offset)
        self.is_cut_at_loss = False

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Remove everything and go on at `offset`."""
        del now_ms
        self.lost_from = None
        self._kept.announce_truncation(0)
        self._end_at(0)
        self.leader_epochs.clear()
        self.records = [None] * offset
        self.log_start_offset = self.log_end_offset = self.durable_end_offset = offset

    def _end_at(self, offset: int) -> None:
        del self.records[offset:]
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.durable_end_offset = min(self.durable_end_offset, offset)
        self._observer.truncated(self, offset)
        if self._high_watermark > offset:
            self.high_watermark = offset
        self.leader_epochs.truncate_from_end(offset)
