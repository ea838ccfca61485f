"""Transactions keep whoever takes over from copying something a second time, or from leaving something out."""

import asyncio
import random
from dataclasses import replace
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_mirror.copy.needs import Need
from ottla_mirror.copy.partition_copy import PartitionCopy
from ottla_mirror.copy.takeover import FoundBatch, Pairing, fingerprint_of
from ottla_mirror.copy.transactions.transaction_requests import TransactionFailed
from ottla_mirror.copy.transactions.transaction_rules import PATIENCE_SHARE, Producer
from ottla_mirror.copy.transactions.transactional_start import begun_by
from tests.support.mirror.jumping_loop import run_in_jumps
from tests.support.mirror.mirror_model import SourceModel
from tests.support.mirror.transaction_model import DATA, PARTITION, SETTINGS, TargetModel, WorkerModel

WORKER = UUID(int=9)


def worker_with(found: list[FoundBatch], source: SourceModel) -> WorkerModel:
    """A worker that has just taken the partition over from one without transactions."""
    target = TargetModel(is_version_2=True)
    worker = WorkerModel(source, target, random.Random(1))
    worker.requests.loses = 0.0
    producer = Producer(*target.init())
    copied = begun_by(worker.work, producer, 0, None, target_end=0, worker=WORKER)
    worker.work.replace_copy(PartitionCopy(copied, Pairing(found, 0, 0), WORKER))
    return worker


def source_of(batches: int) -> SourceModel:
    source = SourceModel(random.Random(3))
    while len(source.batches) < batches:
        source.append()
    source.close_transactions()
    return source


def found_in(source: SourceModel, count: int) -> list[FoundBatch]:
    """The first batches of the source, as one finds them at the target."""
    found, offset = [], 0
    copy = PartitionCopy(
        begun_by(WorkerModel.made_work(), Producer(1, 1), 0, None, target_end=0, worker=WORKER),
        Pairing([], 0, 0),
        WORKER,
    )
    records, aborted = source.fetch(0, 1000)
    copy.take(records, aborted, high_watermark=source.end, last_stable_offset=source.stable_end)
    for batch in list(copy._batches)[:count]:
        found.append(FoundBatch(offset, 0, offset, batch.record_count, fingerprint_of(batch.data)))
        offset += batch.record_count
    return found


def test_nothing_is_committed_before_all_is_found_that_was_copied_without_transactions() -> None:
    async def scenario() -> None:
        source = source_of(8)
        found = found_in(source, 3)
        worker = worker_with(found, source)
        await worker.store.load([PARTITION])
        copy = worker.work.copy
        assert copy is not None
        while copy.map.source_end == 0:  # one of the batches is found, two are to come
            records, aborted = source.fetch(copy.fetch_offset, 1)
            copy.take(records, aborted, high_watermark=source.end, last_stable_offset=source.stable_end)
        assert not copy.has_found_all
        worker.writing.wake()
        worker.writing.commit()
        assert not worker.writing.is_busy
        copy.part_at(copy.fetch_offset, "the source has another history")
        assert copy.needed is not None
        assert copy.needed.need is Need.NEW_SESSION
        worker.writing.wake()
        assert worker.writing.is_busy, "what was found is kept, as nobody looks for the rest any more"
        while worker.writing.is_busy:
            await asyncio.sleep(0.1)  # the clock jumps
        assert not worker.target.logs[DATA].batches
        stored = (await worker.store.load([PARTITION]))[PARTITION]
        assert stored.next_source_offset == copy.map.source_end > 0

    run_in_jumps(scenario())


def test_a_copy_that_begins_at_the_end_stores_where_that_is_before_there_is_a_record() -> None:
    async def scenario() -> None:
        target = TargetModel(is_version_2=True)
        source = source_of(3)
        worker = WorkerModel(source, target, random.Random(1), replace(SETTINGS, start="latest"))
        worker.requests.loses = 0.0
        end = source.end
        await worker.store.load([PARTITION])
        copied = begun_by(worker.work, target.init(), end, None, target_end=0, worker=WORKER)
        worker.work.replace_copy(PartitionCopy(copied, Pairing([], 0, end), WORKER))
        worker.writing.wake()
        while worker.writing.is_busy:
            await asyncio.sleep(0.1)  # the clock jumps
        following = WorkerModel(source, target, random.Random(2))
        stored = (await following.store.load([PARTITION])).get(PARTITION)
        assert stored is not None, "what is written at the source until somebody takes over would be left out"
        assert stored.next_source_offset == end
        assert not target.logs[DATA].batches
        worker.writing.wake()
        assert not worker.writing.is_busy, "it is stored once"

    run_in_jumps(scenario())


def test_what_fails_unexpectedly_is_taken_over_from_what_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        source = source_of(8)
        worker = worker_with([], source)
        await worker.store.load([PARTITION])
        copy = worker.work.copy
        assert copy is not None
        records, aborted = source.fetch(0, 1000)
        copy.take(records, aborted, high_watermark=source.end, last_stable_offset=source.stable_end)

        def prepare(*_: object) -> None:
            raise RuntimeError("a bug")

        with monkeypatch.context() as patched:
            patched.setattr(worker.store, "prepare", prepare)
            worker.writing.wake()
            while worker.writing.is_busy:
                await asyncio.sleep(0.1)  # the clock jumps
        assert worker.failures == 1
        assert copy.needed is not None
        worker.writing.wake()
        assert not worker.writing.is_busy, "the position is behind records that were aborted"
        assert worker.target.logs[DATA].batches
        assert not worker.target.logs[DATA].committed()

    run_in_jumps(scenario())


@pytest.mark.parametrize("need", [Need.NEW_SESSION, Need.DAMAGED])
def test_no_position_is_committed_behind_what_was_aborted_though_the_copy_needs_something_else(
    need: Need, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        source = source_of(8)
        worker = worker_with([], source)
        await worker.store.load([PARTITION])
        copy = worker.work.copy
        assert copy is not None
        records, aborted = source.fetch(0, 1000)
        copy.take(records, aborted, high_watermark=source.end, last_stable_offset=source.stable_end)
        if need is Need.DAMAGED:
            copy._end_with(need, copy.fetch_offset, "a checksum does not match")
        else:
            copy.part_at(copy.fetch_offset, "the source has another history")

        async def not_committed(*_: object) -> None:
            raise TransactionFailed("the coordinator does not answer")

        with monkeypatch.context() as patched:
            patched.setattr(worker.writing._transaction, "commit", not_committed)
            worker.writing.wake()
            while worker.writing.is_busy:
                await asyncio.sleep(0.1)  # the clock jumps
        assert worker.failures == 1
        assert copy.needed is not None
        assert copy.needed.need is need
        assert not worker.target.logs[DATA].committed()
        worker.writing.wake()  # as when the target's leader has moved
        worker.writing.commit()
        while worker.writing.is_busy:
            await asyncio.sleep(0.1)  # the clock jumps
        stored = (await worker.store.load([PARTITION])).get(PARTITION)
        assert stored is None, "the position is behind records that were aborted"

    run_in_jumps(scenario())


@pytest.mark.parametrize("lacks_memory", [True, False])
def test_a_transaction_that_the_target_does_not_take_is_given_up_early_if_others_need_its_memory(
    monkeypatch: pytest.MonkeyPatch, lacks_memory: bool
) -> None:
    async def scenario() -> None:
        source = source_of(8)
        worker = worker_with([], source)
        worker.lacks_memory = lacks_memory
        await worker.store.load([PARTITION])
        copy = worker.work.copy
        assert copy is not None
        records, aborted = source.fetch(0, 1000)
        copy.take(records, aborted, high_watermark=source.end, last_stable_offset=source.stable_end)
        monkeypatch.setattr(worker.target, "produce", lambda *_: (ErrorCode.not_enough_replicas, -1))
        began_s = asyncio.get_running_loop().time()
        worker.writing.wake()
        while worker.writing.is_busy:
            await asyncio.sleep(0.1)  # the clock jumps
        took_s = asyncio.get_running_loop().time() - began_s
        assert SETTINGS.transactions is not None
        assert (took_s < SETTINGS.transactions.timeout_ms / 1000 * PATIENCE_SHARE) == lacks_memory
        assert worker.failures == 1
        assert copy.needed is not None, "it is taken over from what is committed"

    run_in_jumps(scenario())
