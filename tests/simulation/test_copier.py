"""Copiers between clusters in this process that fail at will: each record is copied once and in order."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_core.wire.consumer_fetch import PartitionAnswer
from ottla_core.wire.record_batch import parse_header
from ottla_core.wire.records import Record, encode_batch, iterate_records
from ottla_mirror.copy.copier import Copier
from ottla_mirror.copy.copy_settings import CopySettings
from ottla_mirror.copy.needs import Need
from ottla_mirror.copy.partition_copy import PartitionCopy
from ottla_mirror.copy.partition_work import WAIT_BEFORE_WAY_S, PartitionWork
from ottla_mirror.copy.takeover import Pairing
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.stored_copy import Session, begun
from tests.support.eventually_async import eventually_async
from tests.support.mirror.memory_copy_store import MemoryCopyStore
from tests.support.mirror.mirror_brokers import TOPIC, BrokersModel
from tests.support.mirror.mirror_model import SourceModel, TargetModel

pytestmark = pytest.mark.slow

PARTITIONS = range(6)
STEPS = 300
COPIED_DEADLINE_S = 180.0
"""Real time: the copiers make no progress that depends on it, but a busy machine gives them little of it."""
STEP_S = 0.01
SOURCE_ID, TARGET_ID = UUID(int=1), UUID(int=2)
SETTINGS = CopySettings(
    save_interval_s=0.05,
    backoff_s_min=0.01,
    backoff_s_max=0.1,
    answer_timeout_s=5.0,
    partition_bytes_max=2000,
    buffer_bytes_max=20_000,
    request_bytes_max=1000,
)


class RefusingTarget(TargetModel):
    """A log with too few replicas in sync: what it has is read, and nothing is taken."""

    def __init__(self, taken: TargetModel) -> None:
        super().__init__()
        self.log, self.start, self.end, self.producers = taken.log, taken.start, taken.end, taken.producers

    def append(self, batch: bytes) -> tuple[ErrorCode, int]:
        return ErrorCode.not_enough_replicas, -1


class LateTarget(RefusingTarget):
    """Likewise; but once it takes batches, the first one that it got comes to the log before the next one."""

    def __init__(self, taken: TargetModel) -> None:
        super().__init__(taken)
        self.taken, self.held = taken, b""
        self.takes = False
        self.refused = 0

    def append(self, batch: bytes) -> tuple[ErrorCode, int]:
        if not self.takes:
            self.held = self.held or batch
            self.refused += 1
            return super().append(batch)
        if self.held:
            error, _ = self.taken.append(self.held)
            assert error is ErrorCode.none
            self.held = b""
        outcome = self.taken.append(batch)
        self.end = self.taken.end
        return outcome


def following_like(source: SourceModel, sent: bytes) -> int:
    """Where the first batch of the source begins that has as many records as one that was sent before it."""
    header, values = parse_header(sent), {record.value for record in iterate_records(sent, parse_header(sent))}
    offset = next(offset for offset, record in source.expected.items() if record.value in values)
    found = (parse_header(batch) for batch in source.batches)
    return next(
        each.base_offset
        for each in found
        if each.base_offset > offset
        and each.record_count == header.record_count
        and each.base_offset in source.expected
    )


class Worker:
    """A copier with connections of its own, which can be ended at any moment."""

    def __init__(self, history: "History", settings: CopySettings = SETTINGS):
        self.clusters = (history.source.client(), history.target.client())
        self.copier = Copier(*self.clusters, history.store, settings)

    @classmethod
    async def start(cls, history: "History", settings: CopySettings = SETTINGS) -> "Worker":
        worker = cls(history, settings)
        partitions = [SourcePartition(topic=TOPIC, topic_id=SOURCE_ID, partition=number) for number in PARTITIONS]
        await worker.copier.assign(dict.fromkeys(partitions, TOPIC))
        return worker

    async def kill(self) -> None:
        """Ends it as kill -9 would, as far as others notice: nothing is finished, nothing is saved."""
        tasks = self.copier._tasks
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.copier._works.clear()
        await self.copier.close()
        for cluster in self.clusters:
            await cluster.close()


class History:
    """Both clusters, and what happens to them."""

    def __init__(self, seed: int, *, compacts: bool, forgets: bool):
        self.chosen = random.Random(seed)
        self.compacts = compacts
        self.forgets = forgets
        self.written = {number: SourceModel(self.chosen) for number in PARTITIONS}
        self.copied = {number: TargetModel() for number in PARTITIONS}
        self.source = BrokersModel(self.written, SOURCE_ID, self.chosen)
        self.target = BrokersModel(self.copied, TARGET_ID, self.chosen)
        self.store = MemoryCopyStore()
        self.workers: list[Worker] = []

    async def run(self, worker_count: int) -> None:
        self.workers = [await Worker.start(self) for _ in range(worker_count)]
        for _ in range(STEPS):
            await self.step()
            await asyncio.sleep(STEP_S)  # how long the copier runs between two steps is what is tried
        self.source.is_calm = self.target.is_calm = True
        for log in self.written.values():
            log.close_transactions()
        await eventually_async(lambda: not self.behind(), "all is copied", within_s=COPIED_DEADLINE_S)

    async def step(self) -> None:
        chosen = self.chosen
        for number, log in self.written.items():
            for _ in range(chosen.randrange(4)):
                log.append()
            if self.compacts and chosen.random() < 0.05:
                log.compact(chosen.randrange(log.end + 1))
            if self.forgets and chosen.random() < 0.2:
                log.trim(max(0, log.end - chosen.randrange(4)))
            if chosen.random() < 0.05:
                self.copied[number].append_foreign()
        cluster = chosen.choice((self.source, self.target))
        if chosen.random() < 0.1:
            cluster.move_a_leader()
        if chosen.random() < 0.05:
            cluster.break_connections(chosen.choice((1, 2)))
        if chosen.random() < 0.04:
            await self.workers.pop(chosen.randrange(len(self.workers))).kill()
            self.workers.append(await Worker.start(self))

    def write(self, batches: int) -> None:
        """Appends so many batches to each partition, and ends all transactions."""
        for log in self.written.values():
            for _ in range(batches):
                log.append()
            log.close_transactions()

    def behind(self) -> Mapping[int, int]:
        """Where the workers stand in partitions that none of them has copied to the end."""
        reached = dict.fromkeys(PARTITIONS, -1)
        for worker in self.workers:
            for partition, status in worker.copier.status().items():
                end = self.written[partition.partition].end
                if status.source_offset >= end or (status.lag == 0 and status.source_end >= end):
                    reached.pop(partition.partition, None)
                elif partition.partition in reached:
                    reached[partition.partition] = max(reached[partition.partition], status.source_offset)
        return reached


@asynccontextmanager
async def history(
    seed: int, *, workers: int, compacts: bool = False, forgets: bool = False
) -> AsyncIterator[History]:
    made = History(seed, compacts=compacts, forgets=forgets)
    await made.source.start()
    await made.target.start()
    try:
        await made.run(workers)
        yield made
    finally:
        for worker in made.workers:
            await worker.copier.close()
            for cluster in worker.clusters:
                await cluster.close()
        made.source.stop()
        made.target.stop()


@asynccontextmanager
async def calm_history(seed: int) -> AsyncIterator[History]:
    """Clusters that fail in nothing but what the test does to them; its workers are killed at the end."""
    made = History(seed, compacts=False, forgets=False)
    made.source.is_calm = made.target.is_calm = True
    await made.source.start()
    await made.target.start()
    try:
        yield made
    finally:
        for worker in made.workers:
            await worker.kill()
        made.source.stop()
        made.target.stop()


@pytest.mark.parametrize("seed", [1, 2])
async def test_two_copiers_of_the_same_partitions_copy_each_record_once_and_in_order(seed: int) -> None:
    async with history(seed, workers=2) as made:
        for number, log in made.written.items():
            expected = [record.value for _, record in sorted(log.expected.items())]
            assert [record.value for record in made.copied[number].records()] == expected


@pytest.mark.parametrize("seed", [3, 4])
async def test_a_copier_of_compacted_partitions_loses_no_record_and_repeats_none(seed: int) -> None:
    async with history(seed, workers=1, compacts=True) as made:
        for number, log in made.written.items():
            copied = [record.value for record in made.copied[number].records()]
            assert len(set(copied)) == len(copied)
            assert not {record.value for record in log.expected.values()} - set(copied)


@pytest.mark.parametrize("trouble", ["refuses", "dies", "is out of reach"])
async def test_partitions_that_the_target_does_not_take_hold_up_no_others(trouble: str) -> None:
    async with calm_history(8) as made:
        made.target.leaders = {number: 1 if number == 0 else 2 for number in PARTITIONS}
        made.write(5)
        made.workers = [await Worker.start(made, replace(SETTINGS, buffer_bytes_max=6000))]
        refused, taken = PARTITIONS[1:], made.target.logs
        await eventually_async(lambda: not made.behind(), "all is copied", within_s=COPIED_DEADLINE_S)
        if trouble == "dies":
            made.target.leaders |= dict.fromkeys(refused, -1)
        if trouble == "refuses":
            made.target.logs = {**taken, **{number: RefusingTarget(made.copied[number]) for number in refused}}
        else:
            made.target.end_broker(2)
        made.write(200)
        await eventually_async(lambda: 0 not in made.behind(), "the other partition is copied", within_s=60)
        assert len(made.behind()) == len(refused)
        assert sum(each.lag > 0 for each in made.workers[0].copier.status().values()) == len(refused)
        made.target.logs, made.target.leaders = taken, dict.fromkeys(PARTITIONS, 1)
        await eventually_async(lambda: not made.behind(), "all is copied", within_s=COPIED_DEADLINE_S)
        for number, log in made.written.items():
            expected = [record.value for _, record in sorted(log.expected.items())]
            assert [record.value for record in made.copied[number].records()] == expected


async def test_a_copier_that_takes_over_what_retention_has_emptied_knows_that_it_is_at_the_end() -> None:
    async with calm_history(5) as made:
        unsaved = replace(SETTINGS, save_interval_s=1000)
        made.write(5)
        made.workers = [await Worker.start(made, unsaved)]
        await eventually_async(lambda: not made.behind(), "all is copied", within_s=COPIED_DEADLINE_S)
        await made.workers.pop().kill()
        for log in made.written.values():
            log.trim(log.end)
        made.workers = [await Worker.start(made, unsaved)]
        await eventually_async(lambda: not made.behind(), "nothing is left", within_s=COPIED_DEADLINE_S)


async def test_what_was_sent_behind_gaps_is_sent_again_though_the_partition_has_given_way() -> None:
    """The source may have removed it since, and have something else for the same sequences."""
    async with calm_history(9) as made:
        made.target.leaders = dict.fromkeys(PARTITIONS, 1)
        made.write(40)
        for log in made.written.values():
            log.compact(log.end)
        made.workers = [await Worker.start(made, replace(SETTINGS, buffer_bytes_max=6000))]
        refused, taken = PARTITIONS[1:], made.target.logs
        await eventually_async(lambda: not made.behind(), "all is copied", within_s=COPIED_DEADLINE_S)
        assert all(made.store.stored[TOPIC, number].session.owner is not None for number in refused)
        late = {number: LateTarget(made.copied[number]) for number in refused}
        made.target.logs = {**taken, **late}
        made.write(200)
        await eventually_async(lambda: 0 not in made.behind(), "the other partition is copied", within_s=60)
        for number, target in late.items():
            made.written[number].trim(following_like(made.written[number], target.held))
            target.refused = 0
        await eventually_async(lambda: all(each.refused > 2 for each in late.values()), "it is tried again")
        for target in late.values():
            target.takes = True
        await eventually_async(lambda: not made.behind(), "all is copied", within_s=COPIED_DEADLINE_S)
        for number, log in made.written.items():
            copied = [record.value for record in made.copied[number].records()]
            assert len(set(copied)) == len(copied)
            assert not {record.value for offset, record in log.expected.items()} - set(copied)


async def test_what_is_taken_over_from_a_transaction_waits_without_memory() -> None:
    async with calm_history(1) as made:
        worker = Worker(made)
        made.workers = [worker]
        copier = worker.copier
        made.write(5)
        partition = SourcePartition(topic=TOPIC, topic_id=SOURCE_ID, partition=0)
        work = copier._works[partition] = PartitionWork(partition, TOPIC, 0.0)
        session = Session(
            producer_id=1, producer_epoch=0, source_topic_id=SOURCE_ID, source_start_offset=0,
            target_topic_id=TARGET_ID, target_start_offset=0, replaces=None,
        )  # fmt: skip
        copier.take_copy(work, PartitionCopy(begun(session, None), Pairing([], 0, 0), UUID(int=3)))
        log = made.written[0]
        answer = PartitionAnswer(TOPIC, 0, ErrorCode.none, log.end, log.end, 0, (), memoryview(b""), None)
        copier.on_fetched(work, answer, log.fetch(0, 100)[0])
        assert copier.buffered_bytes > 0
        assert work.copy is not None
        work.copy.look("its transaction was aborted")
        copier.begin_anew(work, "its transaction was aborted", is_taken=False)
        assert copier.buffered_bytes == 0


async def test_what_was_aborted_before_damage_is_copied_before_the_partition_halts() -> None:
    async with calm_history(1) as made:
        worker = Worker(made)
        made.workers = [worker]
        copier = worker.copier
        partition = SourcePartition(topic=TOPIC, topic_id=SOURCE_ID, partition=0)
        work = copier._works[partition] = PartitionWork(partition, TOPIC, 0.0)
        session = Session(
            producer_id=1, producer_epoch=0, source_topic_id=SOURCE_ID, source_start_offset=0,
            target_topic_id=TARGET_ID, target_start_offset=0, replaces=None,
        )  # fmt: skip
        copy = PartitionCopy(begun(session, None), Pairing([], 0, 0), UUID(int=3))
        copier.take_copy(work, copy)
        damaged = bytearray(encode_batch([Record(0, 1, b"k", b"v")]))
        damaged[-1] ^= 1
        copy.take(memoryview(damaged), (), high_watermark=1, last_stable_offset=1)
        needs = [copy.needed]
        copier.begin_anew(work, "its transaction was aborted", is_taken=False)
        needs.append(copy.needed)  # else it would halt, and say that all before the damage is copied
        assert [each and each.need for each in needs] == [Need.DAMAGED, Need.LOOK]


async def test_a_partition_that_has_given_way_is_fetched_again_though_what_was_left_is_refused_for_good() -> None:
    async with calm_history(1) as made:
        worker = Worker(made)
        made.workers = [worker]
        copier = worker.copier
        made.write(1)
        log = made.written[0]
        partition = SourcePartition(topic=TOPIC, topic_id=SOURCE_ID, partition=0)
        work = copier._works[partition] = PartitionWork(partition, TOPIC, 0.0)
        session = Session(
            producer_id=1, producer_epoch=0, source_topic_id=SOURCE_ID, source_start_offset=0,
            target_topic_id=TARGET_ID, target_start_offset=0, replaces=None, owner=UUID(int=3),
        )  # fmt: skip
        copy = PartitionCopy(begun(session, None), Pairing([], 0, 0), UUID(int=3))
        copier.take_copy(work, copy)
        answer = PartitionAnswer(TOPIC, 0, ErrorCode.none, log.end, log.end, 0, (), memoryview(b""), None)
        copier.on_fetched(work, answer, log.fetch(0, 1)[0])
        assert len(copy.next_to_send(1)) == 1
        copy.on_failed(ErrorCode.none, "no answer")
        copier.limit_buffer(1)
        copier.on_unreachable([work], "nobody answers", WAIT_BEFORE_WAY_S)
        assert not work.may_fetch
        copy.repeat()
        assert len(copy.next_to_send(1)) == 1
        copy.on_failed(ErrorCode.message_too_large, "too large")
        copy.pass_over()
        copier.go_on(work)
        assert work.may_fetch, "nothing is left that the target could take, and nobody would look again"


async def test_nothing_is_fetched_beyond_a_share_of_the_memory_that_became_smaller() -> None:
    async with calm_history(1) as made:
        worker = Worker(made)
        made.workers = [worker]
        copier = worker.copier
        copier.buffered_bytes = 15_000
        await copier.wait_for_room()
        copier.limit_buffer(10_000)
        assert copier.reserve(1) == 1
        waiting = asyncio.create_task(copier.wait_for_room())
        for _ in range(3):
            await asyncio.sleep(0)
        assert not waiting.done()
        copier.limit_buffer(20_000)
        await asyncio.wait_for(waiting, 10)


@pytest.mark.parametrize("seed", [5, 6, 7])
async def test_a_copier_that_retention_overtakes_again_and_again_goes_on(seed: int) -> None:
    async with history(seed, workers=1, forgets=True) as made:
        for number, log in made.written.items():
            copied = [record.value for record in made.copied[number].records()]
            assert len(set(copied)) == len(copied)
            assert not {record.value for record in log.expected.values()} - set(copied)
