"""A log with transactions against a plain history: whatever happens, readers of committed records see the same.

The model is the list of all batches and markers that the log has, each with the transaction it belongs to. From it
follow what is decided and replicated, what was aborted, and what compaction has to leave. Producers begin, go on and
end transactions, under one epoch or with a raised one; the log rolls, is cut, flushed, compacted, loses its beginning
by DeleteRecords and retention, stops, crashes, and loses indexes and snapshots that a start can make anew. A
follower takes over all of it in pieces and has to see the same.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla_broker.log.partition.partition_log import PartitionLog
from tests.property.test_compaction_model import Crash, interrupted_swaps
from tests.support.broker.compactions import DELETE_RETENTION_MS, LIMITS, SCARCE, compact, compacted
from tests.support.broker.partition_logs import (
    NOW_MS,
    append,
    open_log,
    problems_in,
    read_batches,
    segment_files,
    small_segments,
)
from tests.support.broker.transactional_logs import Seen, aborts, committed, end, write

PRODUCERS = (1, 2, 3)
PLAIN = -1
OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"


@dataclass
class Transaction:
    """One transaction in the log.

    Attributes:
        producer_id: whose it is.
        first_offset: where it began.
        outcome: what has become of it.
        marker_offset: where it ended, or -1.
        is_in_snapshot: whether a start may have known by a snapshot that it has ended, and not where. Kafka takes it
            for replicated then, too. It does no harm: whoever writes its marker again writes the same one.
    """

    producer_id: int
    first_offset: int
    outcome: str = OPEN
    marker_offset: int = -1
    is_in_snapshot: bool = False


@dataclass
class Batch:
    """One batch in the log."""

    first_offset: int
    records: list[tuple[bytes, bytes | None]]
    transaction: Transaction | None
    epoch: int = -1
    sequence: int = -1


@dataclass
class Producer:
    """What a client knows of itself."""

    epoch: int = 0
    sequence: int = 0
    open: Transaction | None = None
    history: list[tuple[int, int, int]] = field(default_factory=list)
    """Log end, epoch and sequence after each step."""


class TransactionsModel(RuleBasedStateMachine):
    """The model is the history; `self.log` leads and `self.follower` takes it over."""

    is_compacted = False

    @initialize(raises_epochs=st.booleans())
    def begin(self, raises_epochs: bool) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="transactions-model-"))
        self.config = compacted(index_interval_bytes=120) if self.is_compacted else small_segments()
        self.log = open_log(self.directory / "flights-0", config=self.config)
        self.follower = open_log(self.directory / "copy-0", config=self.config)
        self.raises_epochs = raises_epochs
        self.batches: list[Batch] = []
        self.markers: dict[int, Transaction | None] = {}
        self.producers = {producer_id: Producer() for producer_id in PRODUCERS}
        self.end, self.start, self.high_watermark = 0, 0, 0
        self.now_ms = NOW_MS

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.log.abandon()
            self.follower.abandon()
            shutil.rmtree(self.directory)

    # Writing

    @rule(
        producer_id=st.sampled_from((PLAIN, *PRODUCERS)),
        records=st.lists(
            st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.none() | st.binary(max_size=20)), min_size=1, max_size=3
        ),
        replicated=st.booleans(),
    )
    def write(self, producer_id: int, records: list[tuple[bytes, bytes | None]], replicated: bool) -> None:
        key, first = records[0][0], self.end
        records = [(key, value) for _, value in records]
        values = [value for _, value in records]
        if producer_id == PLAIN:
            append(self.log, *values, key=key, leader_epoch=1)
            self.batches.append(Batch(first, records, None))
        else:
            producer = self.producers[producer_id]
            write(
                self.log, *values, producer=(producer_id, producer.epoch, producer.sequence), key=key, leader_epoch=1,
                supports_epoch_bump=self.raises_epochs, now_ms=self.now_ms,
            )  # fmt: skip
            producer.open = producer.open or Transaction(producer_id, first)
            self.batches.append(Batch(first, records, producer.open, producer.epoch, producer.sequence))
            producer.sequence += len(records)
        self.end += len(records)
        self.replicate(replicated)

    @rule(producer_id=st.sampled_from(PRODUCERS), commit=st.booleans(), replicated=st.booleans())
    def end_transaction(self, producer_id: int, commit: bool, replicated: bool) -> None:
        producer = self.producers[producer_id]
        if self.raises_epochs:
            producer.epoch += 1
            producer.sequence = 0
        end(
            self.log, producer_id, producer.epoch, commit=commit, leader_epoch=1, now_ms=self.now_ms,
            transaction_version=2 if self.raises_epochs else 1,
        )  # fmt: skip
        if producer.open is not None:
            producer.open.outcome = COMMITTED if commit else ABORTED
            producer.open.marker_offset = self.end
        self.markers[self.end] = producer.open
        producer.open = None
        self.end += 1
        self.replicate(replicated)

    def replicate(self, replicated: bool) -> None:
        if replicated:
            self.high_watermark = self.end
        self.log.high_watermark = self.high_watermark

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @rule(days=st.integers(1, 2))
    def pass_time(self, days: int) -> None:
        self.now_ms += days * DELETE_RETENTION_MS

    # Taking away

    @precondition(lambda self: self.high_watermark < self.end)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        places = [batch.first_offset for batch in self.batches] + list(self.markers)
        offset = data.draw(st.sampled_from(sorted(place for place in places if place >= self.high_watermark)))
        self.log.truncate_to(offset, self.now_ms)
        self.follower.truncate_to(min(offset, self.follower.log_end_offset), self.now_ms)
        self.follower.high_watermark = min(self.follower.high_watermark, offset)
        for marker_offset, transaction in tuple(self.markers.items()):
            if marker_offset >= offset:
                del self.markers[marker_offset]
                if transaction is not None:
                    transaction.outcome, transaction.marker_offset, transaction.is_in_snapshot = OPEN, -1, False
        self.batches = [batch for batch in self.batches if batch.first_offset < offset]
        self.end = offset
        self.note_snapshots()
        self.go_on_from_the_log()

    def note_snapshots(self) -> None:
        """What the log knows of its producers has been read anew."""
        for batch in self.batches:
            if batch.transaction is not None and batch.transaction.outcome != OPEN:
                batch.transaction.is_in_snapshot = True

    def go_on_from_the_log(self) -> None:
        """Producers go on from what the log knows of them, as after an election clients ask their coordinator."""
        transactions = {id(batch.transaction): batch.transaction for batch in self.batches if batch.transaction}
        for producer_id, producer in self.producers.items():
            entry = self.log.producers.get(producer_id)
            producer.epoch = 0 if entry is None else entry.producer_epoch
            producer.sequence = 0 if entry is None else entry.last_sequence + 1
            producer.open = next(
                (
                    transaction
                    for transaction in transactions.values()
                    if transaction.producer_id == producer_id and transaction.outcome == OPEN
                ),
                None,
            )

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.high_watermark))
        self.log.delete_records_before(offset)
        self.start = max(self.start, offset)
        self.log.enforce_retention(self.now_ms)

    @rule(limits=st.sampled_from([LIMITS, SCARCE]))
    def compact(self, limits) -> None:
        if self.is_compacted:
            compact(self.log, now_ms=self.now_ms, limits=limits)

    @rule(steps=st.integers(0, 14), swaps=st.integers(0, 2))
    def crash_while_a_compaction_is_swapped_in(self, steps: int, swaps: int) -> None:
        if self.is_compacted:
            self.log.roll(self.now_ms)
            try:
                with interrupted_swaps(steps, swaps, Crash()):
                    compact(self.log, now_ms=self.now_ms)
            except Crash:
                self.reopen(clean=False)

    # Stopping

    @rule(clean=st.booleans(), flushed=st.booleans(), data=st.data())
    def restart(self, clean: bool, flushed: bool, data: st.DataObject) -> None:
        if flushed:
            self.log.flush()

        def lose_files() -> None:
            for suffix in [".index", ".timeindex", ".snapshot"] if clean else [".snapshot"]:
                for path in segment_files(self.log.directory, suffix):
                    is_needed = suffix == ".snapshot" and self.start > 0
                    if data.draw(st.booleans()) and not is_needed:
                        path.unlink()

        self.reopen(clean=clean, meanwhile=lose_files)

    def reopen(self, *, clean: bool, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.note_snapshots()
        recovery_point = self.log.recovery_point
        first_dirty_offset = self.log.compaction.first_dirty_offset
        self.log.close() if clean else self.log.abandon()
        meanwhile()
        self.log = open_log(
            self.log.directory, config=self.config, was_clean=clean, recovery_point=recovery_point,
            log_start_offset=self.start, now_ms=self.now_ms,
        )  # fmt: skip
        self.log.compaction.first_dirty_offset = first_dirty_offset
        self.log.high_watermark = self.high_watermark

    # What has to be

    def undecided(self, *, strictly: bool) -> Iterator[int]:
        for batch in self.batches:
            transaction = batch.transaction
            if transaction is None:
                continue
            if not strictly and batch.first_offset + len(batch.records) <= self.start:
                continue  # a log that has lost its snapshots need not know of what cannot be read
            is_replicated = transaction.marker_offset < self.high_watermark
            if transaction.outcome == OPEN or not (is_replicated or (transaction.is_in_snapshot and not strictly)):
                yield transaction.first_offset

    def expected(self, log: PartitionLog) -> list[Seen]:
        return [
            Seen(batch.first_offset + delta, key, value)
            for batch in self.batches
            for delta, (key, value) in enumerate(batch.records)
            if log.log_start_offset <= batch.first_offset + delta < log.last_stable_offset
            and (batch.transaction is None or batch.transaction.outcome == COMMITTED)
        ]

    def last_stable_offset(self, start: int, *, strictly: bool) -> int:
        return max(start, min([self.high_watermark, *self.undecided(strictly=strictly)]))

    def check(self, log: PartitionLog, start: int) -> None:
        least, most = (self.last_stable_offset(start, strictly=strictly) for strictly in (True, False))
        assert least <= log.last_stable_offset <= most
        for max_bytes in (1, 300, 1 << 20):
            seen, expected = committed(log, max_bytes=max_bytes), self.expected(log)
            if not self.is_compacted:
                assert seen == expected
                continue
            assert [record for record in seen if record not in expected] == [], "each is one that was written"
            assert table(seen) == table(expected)

    @invariant()
    def readers_of_committed_records_see_what_was_committed(self) -> None:
        if hasattr(self, "log"):
            assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
            self.check(self.log, self.start)

    @precondition(lambda self: not self.is_compacted)
    @rule(max_bytes=st.integers(1, 2000))
    def follow(self, max_bytes: int) -> None:
        if self.follower.log_end_offset < self.start:
            self.follower.truncate_fully_and_start_at(self.start, self.now_ms)
        batches = read_batches(self.log, self.follower.log_end_offset, max_bytes=max_bytes)
        if not batches:
            return
        self.follower.append_as_follower(b"".join(batch for _, batch in batches), now_ms=self.now_ms)
        self.follower.high_watermark = max(self.follower.high_watermark, self.high_watermark)
        if self.start <= self.follower.high_watermark:
            self.follower.delete_records_before(self.start)
        if self.follower.log_start_offset == self.start == 0:
            self.check(self.follower, self.start)
            assert aborts(self.follower) == aborts(self.log)

    @rule()
    def files_agree(self) -> None:
        self.log.flush()
        self.log.segments.active.write_indexes()
        assert problems_in(self.log.directory) == []


def table(records: list[Seen]) -> dict[bytes | None, bytes]:
    """What a reader has who applies every record to a table."""
    found: dict[bytes | None, bytes] = {}
    for record in records:
        if record.value is None:
            found.pop(record.key, None)
        else:
            found[record.key] = record.value
    return found


class CompactedTransactionsModel(TransactionsModel):
    """The same for a log that is compacted at any time."""

    is_compacted = True


TransactionsModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestTransactions = TransactionsModel.TestCase
CompactedTransactionsModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestCompactedTransactions = CompactedTransactionsModel.TestCase
