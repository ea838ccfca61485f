"""Whatever happens to workers and requests, committed records at the target are those of the source, once, in order.

Histories are simulated: workers take a partition over from others that live on unawares, requests are late and get
lost, and so do their answers; now and then the source has another history, for which another session begins. At all
times the committed position says exactly what is committed. Rules that are broken on purpose are noticed.

`OTTLA_TEST_SEED` and `OTTLA_TEST_HISTORIES` choose other histories, and how many.
"""

import asyncio
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from ottla_core.wire.records import Record
from ottla_mirror.copy.partition_copy import PartitionCopy
from ottla_mirror.copy.partition_start import PartitionStart
from ottla_mirror.copy.transactions import partition_transactions
from ottla_mirror.internal_topics.decided_records import DecidedRecords, ReadBatch
from ottla_mirror.offsets.map_topic import MapTopic
from ottla_mirror.offsets.stored_copy import StoredCopy
from tests.support.mirror import transaction_model
from tests.support.mirror.jumping_loop import run_in_jumps
from tests.support.mirror.mirror_model import SourceModel
from tests.support.mirror.transaction_model import (
    DATA,
    MAPS,
    PARTITION,
    MapTopicModel,
    TargetModel,
    WorkerModel,
    source_values,
    values,
)

SEED = int(os.environ.get("OTTLA_TEST_SEED", "0"))
HISTORIES = int(os.environ.get("OTTLA_TEST_HISTORIES", "25"))
STEPS = 25
STEP_S_MAX = 2.0
ZOMBIES_MAX = 3
THROUGH_WITHIN_S = 600.0


class WrongCopy(AssertionError):
    """The target does not have what it should."""


async def check(source: SourceModel, target: TargetModel) -> None:
    """Compares what is committed at the target with the source, and with the position that is committed."""
    committed = target.logs[DATA].committed()
    wanted = source_values(source)
    if values(committed) != wanted[: len(committed)]:
        raise WrongCopy(f"{len(committed)} records are committed, and they are others than the source has")
    store = MapTopic(MapTopicModel(target.logs[MAPS]))
    copied = (await store.load([PARTITION])).get(PARTITION)
    if copied is None:
        if committed:
            raise WrongCopy("records are committed without a position")
        return
    dealt_with = [offset for offset in sorted(source.expected) if offset < copied.next_source_offset]
    if len(dealt_with) != len(committed):
        raise WrongCopy(f"{len(committed)} records are committed, and the position says {len(dealt_with)}")
    by_offset = {each.offset: each.value for each in committed}
    for offset in dealt_with:
        at, beyond = copied.map.translate(offset)
        if beyond or by_offset.get(at) != source.expected[offset].value:
            raise WrongCopy(f"the map says of offset {offset} that it is {at}")


async def history(seed: int, *, is_version_2: bool, breaks: Callable[[TargetModel], None] | None = None) -> int:
    """Lets one history happen; returns how many transactions its workers could not commit."""
    chosen = random.Random(seed)
    source, target = SourceModel(chosen), TargetModel(is_version_2=is_version_2)
    if breaks is not None:
        breaks(target)
    workers: list[tuple[WorkerModel, asyncio.Task[None]]] = []

    def begin() -> None:
        worker = WorkerModel(source, target, chosen)
        if chosen.random() < 0.3:
            worker.requests.slow_s = 1.5
        for former, _ in workers:
            former.is_replaced = True
        workers.append((worker, asyncio.get_running_loop().create_task(worker.run())))

    try:
        begin()
        for _ in range(STEPS):
            for _ in range(chosen.randrange(4)):
                source.append()
            event = chosen.random()
            if event < 0.25:
                begin()  # the former one lives on until it hears of that
            elif event < 0.4:
                worker, task = workers[-1]
                worker.writing.close()  # what it has sent arrives all the same
                task.cancel()
                begin()
            if len(workers) > ZOMBIES_MAX:
                worker, task = workers.pop(0)
                worker.is_gone = True
                worker.writing.close()
                task.cancel()
            await asyncio.sleep(chosen.uniform(0, STEP_S_MAX))  # the clock jumps
            await check(source, target)
        source.close_transactions()
        last = workers[-1][0]
        last.requests.loses = 0.0
        async with asyncio.timeout(THROUGH_WITHIN_S):
            while not last.is_through():
                await asyncio.sleep(0.1)  # the clock jumps
        await check(source, target)
        if len(target.logs[DATA].committed()) != len(source.expected):
            raise WrongCopy("records of the source are missing")
        return sum(each.failures for each, _ in workers)
    finally:
        for worker, task in workers:
            worker.writing.close()
            task.cancel()
        await asyncio.gather(*(task for _, task in workers), return_exceptions=True)


@pytest.mark.parametrize("is_version_2", [True, False])
def test_each_record_is_committed_once_together_with_the_position(*, is_version_2: bool) -> None:
    failures = 0
    for seed in range(SEED, SEED + HISTORIES):
        try:
            failures += run_in_jumps(history(seed, is_version_2=is_version_2))
        except (AssertionError, TimeoutError) as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
    assert failures > HISTORIES / 5, "hardly anything has happened in these histories"


@contextmanager
def nothing_fences() -> Iterator[Callable[[TargetModel], None]]:
    """Whoever takes over is given the producer of the former owner."""

    def breaks(target: TargetModel) -> None:
        target.fences = False

    yield breaks


@contextmanager
def uncommitted_positions_count(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Positions are read as soon as they are written, whatever becomes of their transaction."""

    def take(self: DecidedRecords, batches: list[ReadBatch]) -> list[Record]:
        return [each for header, records in batches if not header.is_control for each in records]

    with monkeypatch.context() as patched:
        patched.setattr(DecidedRecords, "take", take)
        yield


@contextmanager
def positions_are_stored_apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The position is committed in a transaction of its own, behind that of its records."""
    write = partition_transactions.PartitionTransactions._write

    async def apart(self, copy, content, also):  # type: ignore[no-untyped-def]
        prepare = self._store.prepare
        kept = []

        def prepare_later(partition, copied):  # type: ignore[no-untyped-def]
            kept.append((partition, copied))
            return prepare(partition, copied)._replace(entries=[])

        async def nothing(_):  # type: ignore[no-untyped-def]
            pass

        self._store.prepare = prepare_later
        committed, self._store.on_committed = self._store.on_committed, lambda *_: None
        try:
            await write(self, copy, content, also)
        finally:
            self._store.prepare, self._store.on_committed = prepare, committed
        await write(self, copy, nothing, None)

    with monkeypatch.context() as patched:
        patched.setattr(partition_transactions.PartitionTransactions, "_write", apart)
        yield


@contextmanager
def unanswered_batches_are_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A transaction is committed although a batch of it has no answer."""
    repeat = partition_transactions.PartitionTransactions._repeat

    async def leave(self, copy, pauses):  # type: ignore[no-untyped-def]
        await repeat(self, copy, pauses)
        self._sent_end = copy.map.source_end
        self._is_ending = True

    with monkeypatch.context() as patched:
        patched.setattr(partition_transactions.PartitionTransactions, "_repeat", leave)
        yield


@contextmanager
def sessions_begin_behind_what_is_committed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where the source has another history, the next session begins at a position whose transaction was aborted."""

    def as_found(beginning: PartitionStart, _: PartitionCopy, stored: StoredCopy) -> PartitionStart:
        return replace(beginning, replaces=stored.session.name)

    with monkeypatch.context() as patched:
        patched.setattr(transaction_model, "as_of_stored", as_found)
        yield


def is_noticed(breaks: Callable[[TargetModel], None] | None = None) -> bool:
    """Whether some history shows that a rule is broken."""
    for seed in range(SEED, SEED + 4 * HISTORIES):
        for is_version_2 in (True, False):
            try:
                run_in_jumps(history(seed, is_version_2=is_version_2, breaks=breaks))
            except (WrongCopy, TimeoutError):
                return True
    return False


def test_it_is_noticed_if_nobody_is_fenced() -> None:
    with nothing_fences() as breaks:
        assert is_noticed(breaks)


def test_it_is_noticed_if_positions_count_that_are_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    with uncommitted_positions_count(monkeypatch):
        assert is_noticed()


def test_it_is_noticed_if_positions_are_stored_apart_from_records(monkeypatch: pytest.MonkeyPatch) -> None:
    with positions_are_stored_apart(monkeypatch):
        assert is_noticed()


def test_it_is_noticed_if_batches_without_an_answer_are_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    with unanswered_batches_are_left(monkeypatch):
        assert is_noticed()


def test_it_is_noticed_if_sessions_begin_behind_what_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    with sessions_begin_behind_what_is_committed(monkeypatch):
        assert is_noticed()
