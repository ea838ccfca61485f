"""The log of a simulated replica, in memory, with the interface that `Partition` uses of `PartitionLog`.

A batch is one record here, and a record is its leader epoch and a number that no other record has. The leader epochs
are kept by the real `LeaderEpochs`. What a log holds survives kill -9, as the page cache does; of the high watermark
only what was checkpointed does, and an epoch without records may be forgotten.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ottla_broker.log.appended import Appended
from ottla_broker.log.leader_epoch_checkpoint import LeaderEpochs
from ottla_core.errors import OffsetOutOfRange, UnknownLeaderEpoch
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.record_batch import INT32_MAX

Record = tuple[int, int]
"""Leader epoch and number."""


class Records(tuple[tuple[int, Record], ...]):
    """Consecutive records with their offsets: what a fetch brings."""

    __slots__ = ()


NO_RECORDS = Records()


class InvariantViolated(AssertionError):
    """The cluster did what it must never do."""


class LogObserver(Protocol):
    """Who checks what happens to logs."""

    def leader_appended(self, log: "SimulatedLog", offset: int, record: Record) -> None:
        """A leader has written a record."""

    def follower_appended(self, log: "SimulatedLog") -> None:
        """A follower takes over what a leader has answered."""

    def truncated(self, log: "SimulatedLog", offset: int) -> None:
        """Everything from an offset on is gone."""

    def high_watermark_moved(self, log: "SimulatedLog", former: int) -> None:
        """The high watermark is another one."""


@dataclass(slots=True)
class _Kept:
    """What of a log's state is not derived from its records, and is on the disk."""

    high_watermark: int = 0


class SimulatedLog:
    """One replica's log.

    Attributes:
        broker_id: whose it is.
        records: all records ever kept, by offset; None where they were deleted before this replica got them.
        durable_end_offset: records below it survive a loss of power.
    """

    def __init__(self, topic_partition: TopicPartition, broker_id: int, observer: LogObserver) -> None:
        self.topic_partition = topic_partition
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
        """Write the high watermark to the disk."""
        self._kept.high_watermark = self._high_watermark

    def reopen(self, *, forget_empty_epochs: bool) -> None:
        """Be what a broker finds that starts again after kill -9."""
        self._high_watermark = max(min(self._kept.high_watermark, self.log_end_offset), self.log_start_offset)
        if forget_empty_epochs:
            self.leader_epochs.truncate_from_end(self.log_end_offset)

    def lose_power(self, end_offset: int) -> None:
        """Lose what was not durable yet; something between `durable_end_offset` and the end remains."""
        if end_offset < self.log_end_offset:
            self._end_at(end_offset)

    # Appending

    def append_as_leader(
        self, records: Sequence[int], *, leader_epoch: int, now_ms: int, origin: Any = None
    ) -> Appended:
        """Append new records, given as numbers."""
        del now_ms, origin
        first = self.log_end_offset
        self.leader_epochs.assign(leader_epoch, first)
        for number in records:
            record = (leader_epoch, number)
            self.records.append(record)
            self.log_end_offset += 1
            self._observer.leader_appended(self, self.log_end_offset - 1, record)
        return Appended(first, self.log_end_offset - 1, -1, self.log_start_offset, False)

    def has_batch(self, records: Sequence[int]) -> bool:
        """Return False: these producers are not idempotent."""
        del records
        return False

    def append_as_follower(self, records: Records, *, now_ms: int, leader_epoch: int = INT32_MAX) -> int:
        """Append what was fetched from a leader of some epoch; passes over what is there already."""
        del now_ms
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
        return Records(enumerate(self.records[offset:end], offset))  # type: ignore[arg-type]

    # Leader epochs

    def start_leader_epoch(self, epoch: int) -> None:
        """Note that this leader's epoch begins at the log's end."""
        if epoch > self.leader_epochs.latest:
            self.leader_epochs.assign(epoch, self.log_end_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest known epoch up to `epoch` and where it ends; (-1, -1) if there is none."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # Removing

    def delete_records_before(self, offset: int) -> int:
        """Move the log's start."""
        assert offset <= self._high_watermark
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)
        return self.log_start_offset

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Remove everything from `offset` on."""
        if offset >= self.log_end_offset:
            self.leader_epochs.truncate_from_end(offset)
        elif offset < self.log_start_offset:
            self.truncate_fully_and_start_at(offset, now_ms)
        else:
            self._end_at(offset)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Remove everything and go on at `offset`."""
        del now_ms
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
