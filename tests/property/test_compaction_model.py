"""A compacted log against the history of all that was ever written to it.

Any sequence of puts, tombstones, deletions, rolls, rounds of compaction, truncations and passing time, with a crash
or a failing disk after any file operation of a swap, or of the start after it. Whatever happens, a reader gets the
last value of every key and no key that was deleted; each record it sees is the one that was written at that offset;
and a tombstone is there for `delete.retention.ms` after the round that first applied it.
"""

import errno
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla_broker.log.compaction.segment_cleaning import NoPace
from ottla_broker.log.partition.log_compaction import RoundLimits
from ottla_broker.log.segments.segment_swap import Rename, carry_out
from ottla_core.wire.compression import Codec
from ottla_core.wire.records import Record, encode_batch
from tests.support.broker.compactions import (
    DELETE_RETENTION_MS,
    LIMITS,
    SCARCE,
    compact,
    compacted,
    last_values,
    records_of,
)
from tests.support.broker.partition_logs import NOW_MS, open_log, problems_in, read_batches, segment_files

CONFIG = compacted(index_interval_bytes=120)
BATCH_RECORDS_MAX = 4
"""As many keys as the scarce map has room for."""

keys = st.sampled_from([b"a", b"b", b"c", b"d", b"e", b"f", b"key that is longer than others"])
limits = st.sampled_from([LIMITS, SCARCE])
pairs = st.lists(st.tuples(keys, st.none() | st.binary(max_size=40)), min_size=1, max_size=BATCH_RECORDS_MAX)


class Crash(BaseException):
    """The process ends here."""


@dataclass
class Producer:
    epoch: int = 0
    next_sequence: int = 0
    last_offset: int = -1


class CompactionModel(RuleBasedStateMachine):
    """The model is the list of all records ever written, by offset."""

    @initialize()
    def begin(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="compaction-model-"))
        self.log = open_log(self.directory / "flights-0", config=CONFIG)
        self.history: list[Record] = []
        self.batches: list[int] = []
        self.producers = {1: Producer(), 2: Producer()}
        self.now_ms = NOW_MS
        self.start = 0
        self.checkpoint: int | None = None
        self.applied_ms: dict[int, int] = {}

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.log.abandon()
            shutil.rmtree(self.directory)

    # Writing

    @rule(batches=st.lists(pairs, min_size=1, max_size=6), hold=st.booleans(), data=st.data())
    def put(self, batches: Sequence[Sequence[tuple[bytes, bytes | None]]], hold: bool, data: st.DataObject) -> None:
        for batch in batches:
            self.put_batch(batch, data.draw(st.sampled_from(Codec)), data.draw(st.sampled_from([1, 1, 2, -1])))
        if not hold:
            self.log.high_watermark = self.log.log_end_offset

    def put_batch(self, batch: Sequence[tuple[bytes, bytes | None]], codec: Codec, producer_id: int) -> None:
        end = len(self.history)
        records = [Record(end + delta, self.now_ms + delta, *pair) for delta, pair in enumerate(batch)]
        appended = self.append(records, codec, producer_id)
        assert (appended.base_offset, appended.duplicate) == (end, False)
        self.history += records
        self.batches.append(end)
        if producer_id in self.producers:
            producer = self.producers[producer_id]
            producer.next_sequence += len(batch)
            producer.last_offset = end + len(batch) - 1

    def append(self, records: Sequence[Record], codec: Codec, producer_id: int):
        producer = self.producers.get(producer_id)
        identity = (-1, -1, -1) if producer is None else (producer_id, producer.epoch, producer.next_sequence)
        base = records[0].offset
        batch = encode_batch(
            [record._replace(offset=record.offset - base) for record in records],
            codec=codec, producer_id=identity[0], producer_epoch=identity[1], base_sequence=identity[2],
        )  # fmt: skip
        return self.log.append_as_leader(batch, leader_epoch=1, now_ms=self.now_ms)

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.log.high_watermark))
        self.log.delete_records_before(offset)
        self.start = max(self.start, offset)
        self.log.enforce_retention(self.now_ms)

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        choices = [offset for offset in self.batches if offset >= max(self.log.high_watermark, self.start)]
        if not choices:
            return
        offset = data.draw(st.sampled_from(choices))
        self.log.truncate_to(offset, self.now_ms)
        self.checkpoint = self.log.compaction.first_dirty_offset
        del self.history[offset:]
        self.batches = [batch for batch in self.batches if batch < offset]
        for producer_id, producer in self.producers.items():
            entry = self.log.producers.get(producer_id)
            producer.next_sequence = entry.last_sequence + 1 if entry else producer.next_sequence
            producer.last_offset = entry.last_offset if entry else -1

    # Compacting

    @rule(limits=limits, roll=st.booleans(), after=st.sampled_from([0, 0.5, 1]))
    def compact(self, limits: RoundLimits, roll: bool = True, after: float = 0) -> None:
        self.now_ms += int(after * DELETE_RETENTION_MS)
        if roll:
            self.log.roll(self.now_ms)
        if compact(self.log, now_ms=self.now_ms, limits=limits) is not None:
            self.note_applied(self.log.compaction.first_dirty_offset)

    def note_applied(self, end_offset: int | None = None) -> None:
        """Every tombstone that a round took in is due to go `delete.retention.ms` later.

        An interrupted round may have taken in any.
        """
        for record in self.history[:end_offset]:
            if record.value is None:
                self.applied_ms.setdefault(record.offset, self.now_ms)

    @rule(limits=limits, after=st.sampled_from([0, 0.5, 1]))
    def overwrite_and_compact(self, limits: RoundLimits, after: float) -> None:
        """Make sure that a round is due."""
        self.put_batch([(b"a", b"overwritten")], Codec.NONE, -1)
        self.log.high_watermark = self.log.log_end_offset
        self.compact(limits, after=after)

    @rule(steps=st.integers(0, 14), swaps=st.integers(0, 2), limits=limits)
    def crash_while_swapping(self, steps: int, swaps: int, limits: RoundLimits) -> None:
        try:
            with interrupted_swaps(steps, swaps, Crash()):
                self.overwrite_and_compact(limits, after=0)
        except Crash:
            self.note_applied()
            self.reopen_after_crash()

    @rule(steps=st.integers(0, 14), swaps=st.integers(0, 2))
    def the_disk_refuses_a_rename(self, steps: int, swaps: int) -> None:
        self.log.roll(self.now_ms)
        before = [segment.base_offset for segment in self.log.segments]
        with interrupted_swaps(steps, swaps, OSError(errno.EIO, "no")) as begun:
            try:
                self.compact(LIMITS, roll=False)
            except OSError:
                self.note_applied()
                first_was_done = len(begun) > 1
                assert first_was_done or [segment.base_offset for segment in self.log.segments] == before

    @rule(bytes_until=st.integers(0, 3000))
    def crash_while_cleaning(self, bytes_until: int) -> None:
        try:
            compact(self.log, now_ms=self.now_ms, pace=EndAfter(bytes_until))
        except Crash:
            self.note_applied()
            self.reopen_after_crash()
        else:
            self.note_applied(self.log.compaction.first_dirty_offset)

    @rule(steps=st.integers(0, 16), operations=st.integers(0, 12))
    def crash_while_starting_after_a_crash(self, steps: int, operations: int) -> None:
        try:
            with interrupted_swaps(steps, 0, Crash()):
                self.overwrite_and_compact(LIMITS, after=0)
        except Crash:
            self.note_applied()
            recovery_point = self.log.recovery_point
            self.log.abandon()
            try:
                with interrupted_start(operations):
                    open_log(self.log.directory, config=CONFIG, recovery_point=recovery_point).abandon()
            except Crash:
                pass
            self.reopen_after_crash(recovery_point)

    # Restarting

    @rule()
    def write_the_checkpoint(self) -> None:
        self.checkpoint = self.log.compaction.first_dirty_offset

    @rule()
    def crash(self) -> None:
        self.reopen_after_crash()

    def reopen_after_crash(self, recovery_point: int | None = None) -> None:
        point = self.log.recovery_point if recovery_point is None else recovery_point
        self.log.abandon()
        self.open(was_clean=False, recovery_point=point)
        assert not [path for path in self.log.directory.iterdir() if path.suffix in {".cleaned", ".swap", ".deleted"}]

    @rule(data=st.data())
    def restart_with_lost_files(self, data: st.DataObject) -> None:
        self.log.close()
        self.checkpoint = self.log.compaction.first_dirty_offset
        lost: set[str] = set()
        for suffix in (".index", ".timeindex", ".snapshot"):
            for path in segment_files(self.log.directory, suffix):
                if data.draw(st.booleans()):
                    path.unlink()
                    lost.add(suffix)
        self.open(was_clean=True, recovery_point=0, snapshots_are_lost=".snapshot" in lost)

    def open(self, *, was_clean: bool, recovery_point: int, snapshots_are_lost: bool = False) -> None:
        high_watermark = self.log.high_watermark
        self.log = open_log(
            self.log.directory,
            config=CONFIG,
            was_clean=was_clean,
            recovery_point=recovery_point,
            log_start_offset=self.start,
            now_ms=self.now_ms,
        )
        self.log.high_watermark = high_watermark
        self.log.compaction.first_dirty_offset = self.checkpoint
        assert self.log.log_end_offset == len(self.history)
        kept = {(header.producer_id, header.last_offset) for header, _ in read_batches(self.log)}
        for producer_id, producer in self.producers.items():
            entry = self.log.producers.get(producer_id)
            if producer.last_offset >= self.log.first_segment_offset:
                # A round keeps each producer's last batch. If that is cut off later, only a snapshot may know the
                # one before it.
                is_known = (producer_id, producer.last_offset) in kept or not snapshots_are_lost
                assert entry or not is_known, "a producer whose last batch is in the log is known"
                if entry and not is_known:
                    producer.next_sequence, producer.last_offset = entry.last_sequence + 1, entry.last_offset
            if entry is None:
                producer.last_offset = -1
            else:
                assert (entry.last_sequence + 1, entry.last_offset) == (producer.next_sequence, producer.last_offset)

    # What has to hold

    @invariant()
    def readers_see_the_last_value_of_every_key(self) -> None:
        if not hasattr(self, "log"):
            return
        records = records_of(self.log)
        offsets = [record.offset for record in records]
        assert offsets == sorted(set(offsets)), "offsets ascend"
        assert records == [self.history[offset] for offset in offsets], "each record is as it was written"
        assert last_values(records) == last_values(self.history[self.start :])

    @invariant()
    def nothing_goes_that_nothing_supersedes(self) -> None:
        if not hasattr(self, "log"):
            return
        visible = {record.offset for record in records_of(self.log)}
        newest = {record.key: record for record in self.history[self.start :]}
        for record in newest.values():
            expires_ms = self.applied_ms.get(record.offset, self.now_ms) + DELETE_RETENTION_MS
            if record.value is not None or self.now_ms < expires_ms:
                assert record.offset in visible

    @rule(data=st.data())
    def read_from_anywhere(self, data: st.DataObject) -> None:
        all_records = records_of(self.log)
        for offset in data.draw(st.lists(st.integers(self.start, len(self.history)), max_size=5)):
            for record in all_records:
                if record.offset >= offset:
                    found = self.log.read(offset, max_bytes=1, end_offset=len(self.history), at_least_one_batch=True)
                    assert found is not None
                    break

    @rule()
    def close_and_compare_the_indexes(self) -> None:
        self.log.close()
        self.checkpoint = self.log.compaction.first_dirty_offset
        assert problems_in(self.log.directory) == []
        self.open(was_clean=True, recovery_point=0)


class EndAfter(NoPace):
    """A process that is killed after it has read and written so much."""

    def __init__(self, size_bytes: int) -> None:
        self.left = size_bytes

    def spent(self, size_bytes: int) -> None:
        self.left -= size_bytes
        if self.left < 0:
            raise Crash


@contextmanager
def interrupted_swaps(steps: int, swaps: int, error: BaseException) -> Iterator[list[Sequence[Rename]]]:
    """Let so many swaps pass, and of each later one so many renames; yield the list of those that have begun."""
    begun: list[Sequence[Rename]] = []

    def interrupted(renames: Sequence[Rename]) -> None:
        begun.append(renames)
        done = 0

        def rename(source: Path, target: Path) -> None:
            nonlocal done
            if len(begun) > swaps and done == steps:
                raise error
            source.rename(target)
            done += 1

        carry_out(renames, rename)

    with mock.patch("ottla_broker.log.partition.local_log.carry_out", interrupted):
        yield begun


@contextmanager
def interrupted_start(operations: int) -> Iterator[None]:
    """Let so many renames and removals happen."""
    left = operations
    rename, unlink = Path.rename, Path.unlink

    def spend() -> None:
        nonlocal left
        if left == 0:
            raise Crash
        left -= 1

    def counted_rename(source: Path, target: Path) -> Path:
        spend()
        return rename(source, target)

    def counted_unlink(path: Path, missing_ok: bool = False) -> None:
        if path.exists():
            spend()
        unlink(path, missing_ok=missing_ok)

    with mock.patch.object(Path, "rename", counted_rename), mock.patch.object(Path, "unlink", counted_unlink):
        yield


CompactionModel.TestCase.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
TestCompaction = CompactionModel.TestCase


@pytest.mark.slow
class TestCompactionAtLength(CompactionModel.TestCase):
    """The same with more and longer histories."""

    settings = settings(max_examples=80, stateful_step_count=60, deadline=None)
