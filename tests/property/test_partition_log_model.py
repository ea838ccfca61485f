"""A partition's log against a plain list of records, through appends, rolls, cuts, crashes and lost indexes."""

import asyncio
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla_core.wire.compression import Codec
from tests.support.broker.partition_logs import (
    NOW_MS,
    append,
    batch_of,
    open_log,
    problems_in,
    read_values,
    segment_files,
    small_segments,
)

CONFIG = small_segments(index_interval_bytes=120)
values = st.lists(st.none() | st.binary(max_size=30), min_size=1, max_size=4)


class PartitionLogModel(RuleBasedStateMachine):
    """The model is a list of (first offset, values, timestamps) per batch and the log's start."""

    @initialize()
    def begin(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="log-model-"))
        self.log = open_log(self.directory / "flights-0", config=CONFIG)
        self.batches: list[tuple[int, list[bytes | None], list[int]]] = []
        self.end = 0
        self.start = 0
        self.sequence = 0
        self.producer_is_forgotten = False

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.log.abandon()
            shutil.rmtree(self.directory)

    @rule(batch=values, codec=st.sampled_from(Codec), delta=st.integers(0, 50))
    def append_batch(self, batch: list[bytes | None], codec: Codec, delta: int) -> None:
        timestamps = [NOW_MS + (delta * number) % 37 for number in range(len(batch))]
        appended = append(
            self.log, *batch, codec=codec, timestamps=timestamps, producer=(1, 0, self.sequence), leader_epoch=1
        )
        assert (appended.base_offset, appended.duplicate) == (self.end, False)
        self.producer_is_forgotten = False
        self.batches.append((self.end, batch, timestamps))
        self.end += len(batch)
        self.sequence += len(batch)

    @precondition(lambda self: self.batches and not self.producer_is_forgotten)
    @rule()
    def retry_the_last_batch(self) -> None:
        first, batch, timestamps = self.batches[-1]
        again = append(
            self.log, *batch, timestamps=timestamps, producer=(1, 0, self.sequence - len(batch)), leader_epoch=1
        )
        assert (again.base_offset, again.duplicate) == (first, True)

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @precondition(lambda self: self.batches)
    @rule(data=st.data(), prepared=st.booleans())
    def truncate(self, data: st.DataObject, prepared: bool) -> None:
        kept = data.draw(st.integers(0, len(self.batches) - 1))
        offset = self.batches[kept][0]
        if offset < self.start:
            return
        if prepared:
            asyncio.run(self.truncate_prepared(offset))
        else:
            self.log.truncate_to(offset, NOW_MS)
        del self.batches[kept:]
        self.end = offset
        # The producer goes on from what the log still knows of it, or from anywhere if it knows nothing.
        known = [entry.last_sequence + 1 for entry in self.log.active_producers()]
        self.sequence = known[0] if known else self.sequence
        self.producer_is_forgotten = not known

    async def truncate_prepared(self, offset: int) -> None:
        """Cut with what a thread has read before, which has to be what the loop would read after."""
        async with self.log.truncation.prepared(offset):
            found = self.log.truncation.found_below(offset)
            self.log.truncate_to(offset, NOW_MS)
            if found is not None:
                assert [(entry.producer_id, entry.batches) for entry in found.producers] == [
                    (entry.producer_id, entry.batches) for entry in self.log.active_producers()
                ]
                assert found.largest == self.log.segments.active.largest_timestamp()
        await self.log.truncation.settled()

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        assert self.log.delete_records_before(offset) == offset
        self.start = offset
        self.log.enforce_retention(NOW_MS)

    @rule(torn=st.binary(max_size=70), whole=st.booleans(), flushed=st.booleans())
    def crash(self, torn: bytes, whole: bool, flushed: bool) -> None:
        if flushed:
            self.log.flush()
        recovery_point = self.log.recovery_point
        self.log.abandon()
        unfinished = batch_of(b"unfinished" * 8, base_offset=self.end)
        with segment_files(self.log.directory)[-1].open("ab") as file:
            file.write(unfinished[: len(torn)] if whole else torn)
        self.log = open_log(
            self.log.directory,
            config=CONFIG,
            was_clean=False,
            recovery_point=recovery_point,
            log_start_offset=self.start,
        )

    @rule(data=st.data())
    def restart_with_lost_indexes(self, data: st.DataObject) -> None:
        self.log.close()
        for suffix in (".index", ".timeindex", ".snapshot"):
            for path in segment_files(self.log.directory, suffix):
                if data.draw(st.booleans()):
                    path.unlink()
        self.log = open_log(self.log.directory, config=CONFIG, log_start_offset=self.start)
        if self.batches and not self.log.active_producers():
            assert self.batches[-1][0] < self.log.first_segment_offset, "what is in the log is known"
            self.producer_is_forgotten = True

    @precondition(lambda self: self.batches)
    @rule(data=st.data(), max_bytes=st.integers(1, 800))
    def read_from_anywhere(self, data: st.DataObject, max_bytes: int) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        stop = data.draw(st.sampled_from([first for first, _, _ in self.batches] + [self.end]))
        expected = [
            (first + delta, value)
            for first, batch, _ in self.batches
            if first + len(batch) > offset and first < stop and offset < stop
            for delta, value in enumerate(batch)
        ]
        assert read_values(self.log, offset, max_bytes=max_bytes, end_offset=stop) == expected

    @rule(timestamp=st.integers(NOW_MS - 1, NOW_MS + 38))
    def search_by_time(self, timestamp: int) -> None:
        expected = next(
            (
                (first + delta, time, 1)
                for first, batch, times in self.batches
                for delta, time in enumerate(times)
                if time >= timestamp and first + delta >= self.start
            ),
            None,
        )
        assert self.log.offset_for_timestamp(timestamp) == expected

    @invariant()
    def ends_agree(self) -> None:
        if hasattr(self, "log"):
            assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)

    @rule()
    def close_and_compare_the_indexes(self) -> None:
        self.log.close()
        assert problems_in(self.log.directory) == []
        self.log = open_log(self.log.directory, config=CONFIG, log_start_offset=self.start)


PartitionLogModel.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestPartitionLog = PartitionLogModel.TestCase
