"""Simulated histories of a partition's copy: whatever happens, each record is copied once and in order."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from ottla_core.wire.record_batch import parse_header
from ottla_core.wire.records import iterate_records
from tests.support.mirror.mirror_model import SourceModel, StoreModel, TargetModel, WorkerModel

SEEDS = st.integers(0, 2**32)


class History:
    """Some hundred events, then a worker that copies to the end without any."""

    def __init__(self, seed: int, *, workers: int, compacts: bool = False, trims: bool = False, foreign: bool = True):
        self.chosen = random.Random(seed)
        self.source, self.target, self.store = SourceModel(self.chosen), TargetModel(), StoreModel()
        self.workers = [WorkerModel(self.source, self.target, self.store) for _ in range(workers)]
        self.compacts, self.trims, self.foreign = compacts, trims, foreign
        for _ in range(self.chosen.randrange(20, 400)):
            self.step()
        self.source.close_transactions()
        for worker in self.workers:
            worker.crash()
            while worker.late:
                worker.arrive()
        self.last = WorkerModel(self.source, self.target, self.store)
        self.last.finish()

    def step(self) -> None:
        chosen = self.chosen
        worker = chosen.choice(self.workers)
        kind = chosen.random()
        if kind < 0.15:
            self.source.append()
        elif kind < 0.17 and self.foreign:
            self.target.append_foreign()
        elif kind < 0.19 and self.compacts:
            self.source.compact(chosen.randrange(self.source.end + 1))
        elif kind < 0.20 and self.trims:
            self.source.trim(chosen.randrange(self.source.end + 1))
        elif kind < 0.22:
            worker.crash()
        elif kind < 0.24:
            worker.lose_connection(arrives_late=chosen.random() < 0.5)
        elif kind < 0.26:
            worker.refuse(chosen.choice((ErrorCode.not_leader_or_follower, ErrorCode.not_enough_replicas)))
        elif kind < 0.32:
            worker.save()
        elif kind < 0.42:
            if worker.copy is None:
                while worker.late and (self.compacts or self.trims):
                    worker.arrive()  # else a batch may be copied twice, behind a gap
                worker.start()
        elif kind < 0.57:
            worker.fetch(chosen.randrange(1, 6))
        elif kind < 0.75:
            worker.send()
        elif kind < 0.85:
            worker.arrive()
        elif kind < 0.95:
            worker.answer()
        else:
            worker.go_on()

    @property
    def copied(self) -> list[bytes | None]:
        return [each.value for each in self.target.records()]

    @property
    def expected(self) -> list[bytes | None]:
        return [each.value for _, each in sorted(self.source.expected.items())]

    def check_map(self) -> None:
        """Every record of the source is where the map says, and so is whatever lies between."""
        assert self.last.copy is not None
        offset_map = self.last.copy.map
        by_offset = {}
        for batch in self.target.log:
            by_offset.update({each.offset: each.value for each in iterate_records(batch, parse_header(batch))})
        expected = sorted(self.source.expected.items())
        for offset, record in expected:
            assert by_offset[offset_map.translate(offset).target_offset] == record.value
        for offset in range(offset_map.source_start, self.source.end):
            following = next((record for each, record in expected if each >= offset), None)
            found = offset_map.translate(offset).target_offset
            if following is None:
                assert found == offset_map.target_end
            else:
                assert by_offset[found] == following.value

    def check_groups(self) -> None:
        """Whatever a group has committed at the source, at the target it goes on with the records behind that.

        A record's value says its offset at the source, so the map has no say in what is expected.
        """
        assert self.last.copy is not None
        copied = [(each.offset, int((each.value or b"v0")[1:])) for each in self.target.records()]
        offset_map = self.last.copy.map
        lost = [(hole.source_start, hole.source_end) for hole in offset_map.holes()]
        assert self.trims or not lost
        for committed in range(self.source.end + 1):
            found, not_copied = offset_map.translate(committed)
            # What is at the target and was removed at the source holds up the position until something follows it.
            assert not not_copied or self.trims
            behind = [target for target, source in copied if source >= committed and self.is_wanted(source)]
            assert all(target >= found for target in behind), "a record is skipped"
            if not not_copied and not any(start <= committed < end for start, end in lost):
                assert all(target < found for target, source in copied if source < committed), "a record is repeated"

    def is_wanted(self, source_offset: int) -> bool:
        """Whether a group has to get a record: compaction has not removed it, as its key has a later one."""
        return not self.compacts or source_offset in self.source.expected


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_one_worker_that_crashes_copies_each_record_once_and_in_order(seed: int):
    history = History(seed, workers=1)
    assert history.copied == history.expected
    history.check_map()
    history.check_groups()


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_workers_that_copy_the_same_partition_copy_each_record_once_and_in_order(seed: int):
    history = History(seed, workers=3)
    assert history.copied == history.expected
    history.check_map()
    history.check_groups()


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_compaction_between_neither_loses_nor_repeats_a_record(seed: int):
    history = History(seed, workers=1, compacts=True)
    copied = history.copied
    assert len(set(copied)) == len(copied), "a record was copied twice"
    assert copied == sorted(copied, key=lambda value: int((value or b"v0")[1:])), "records changed their order"
    assert not set(history.expected) - set(copied), "a record is missing"
    history.check_groups()


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_retention_and_compaction_between_several_workers_lose_no_record(seed: int):
    history = History(seed, workers=3, compacts=True, trims=True)
    assert not set(history.expected) - set(history.copied), "a record is missing"
    at_source = {each.key: each.value for _, each in sorted(history.source.expected.items())}
    at_target = {each.key: each.value for each in history.target.records()}
    assert not at_source.items() - at_target.items(), "a key has a value from before"


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_retention_between_neither_loses_nor_repeats_what_is_left(seed: int):
    history = History(seed, workers=1, trims=True)
    copied = history.copied
    assert len(set(copied)) == len(copied), "a record was copied twice"
    assert not set(history.expected) - set(copied), "a record is missing"
    history.check_groups()


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_what_the_target_loses_is_copied_again(seed: int):
    """Its end, or all of it, and with that what it knows of the session, so that what is under way is taken then."""
    history = History(seed, workers=1, foreign=False)
    chosen, source, target = history.chosen, history.source, history.target
    worker = WorkerModel(source, target, history.store)
    worker.start()
    for _ in range(chosen.randrange(1, 12)):
        source.append()
        worker.fetch(3)
        worker.send()
        if chosen.random() < 0.5:
            worker.arrive()
            worker.answer()
    source.close_transactions()
    target.lose(chosen.choice((0, chosen.randrange(target.end + 1))))
    lost_at = source.end
    while max(source.expected, default=-1) < lost_at:  # it shows when something is copied
        source.append()
        source.close_transactions()
    worker.finish()
    assert not set(history.expected) - set(history.copied), "a record is missing"
