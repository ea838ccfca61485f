"""Who attends to partitions comes back to all that still need something."""

import asyncio
from collections.abc import Callable, Mapping
from typing import cast
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_core.wire.records import Record, encode_batch
from ottla_mirror.copy import slow_partition_work
from ottla_mirror.copy.cluster_view import ClusterView
from ottla_mirror.copy.copy_settings import CopySettings
from ottla_mirror.copy.log_offsets import EARLIEST, LATEST
from ottla_mirror.copy.needs import Need
from ottla_mirror.copy.partition_copy import PartitionCopy
from ottla_mirror.copy.partition_start import ATTEMPTS_BEFORE_LOST, Failures, PartitionStart
from ottla_mirror.copy.partition_work import PartitionState, PartitionWork
from ottla_mirror.copy.slow_partition_work import SlowPartitionWork
from ottla_mirror.copy.takeover import Pairing
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.stored_copy import Session, StoredCopy, begun
from tests.support.mirror.memory_copy_store import MemoryCopyStore

OWN_SESSION = Session(
    producer_id=1,
    producer_epoch=0,
    source_topic_id=UUID(int=2),
    source_start_offset=0,
    target_topic_id=UUID(int=3),
    target_start_offset=0,
    replaces=None,
    owner=UUID(int=1),
)


class Owner:
    """Has every partition, and does at once what is to be done after a pause."""

    def is_ours(self, work: PartitionWork) -> bool:
        return work.partition.topic != "gone"

    def locate(self, work: PartitionWork) -> str:
        return ""

    def take_copy(self, work: PartitionWork, copy: PartitionCopy) -> None:
        raise AssertionError(work)

    def go_on(self, work: PartitionWork) -> None:
        raise AssertionError(work)

    def halt(self, work: PartitionWork, reason: str) -> None:
        raise AssertionError(work)

    def later(
        self, work: PartitionWork, reason: str, what: Callable[[PartitionWork], None], pause_s: float | None = None
    ) -> None:
        work.set_state(PartitionState.WAITING, reason, 0)
        what(work)


class Starts:
    """Fails unexpectedly at first; then it notes what is to be taken over."""

    def __init__(self) -> None:
        self.attempts = 0
        self.asked: asyncio.Future[set[str]] = asyncio.get_running_loop().create_future()

    async def begin(
        self, wanted: Mapping[PartitionWork, PartitionStart]
    ) -> tuple[dict[PartitionWork, PartitionCopy], Failures]:
        self.attempts += 1
        if self.attempts == 1:
            raise RuntimeError("a bug")
        self.asked.set_result({work.partition.topic for work in wanted})
        return {}, {}


async def test_partitions_are_taken_over_though_the_first_attempt_has_failed_unexpectedly() -> None:
    starts = Starts()
    steward = SlowPartitionWork(
        Owner(),
        cast("ClusterView", None),
        cast("ClusterView", None),
        starts,
        store=MemoryCopyStore(),
        settings=CopySettings(),
        worker=UUID(int=1),
    )
    running = asyncio.create_task(steward.run())
    works = [
        PartitionWork(SourcePartition(topic=topic, topic_id=UUID(int=2), partition=0), topic, 0)
        for topic in ("a", "b", "halted")
    ]
    for work in works:
        steward.attend_to(work)
    works[2].set_state(PartitionState.HALTED, "refused", 0)
    async with asyncio.timeout(10):
        assert await starts.asked == {"a", "b"}
    running.cancel()


async def test_leaders_are_asked_for_again_until_a_partition_that_is_to_be_taken_over_has_one() -> None:
    """Nothing of it fails, so it would wait until everything is asked for anew, a minute later."""

    class View:
        refreshed = 0

        def refresh(self) -> None:
            self.refreshed += 1

    class Leaderless(Owner):
        def locate(self, work: PartitionWork) -> str:
            return "" if min(source.refreshed, target.refreshed) >= 2 else "it has no leader"

    source, target, starts = View(), View(), Starts()
    starts.attempts = 1
    steward = SlowPartitionWork(
        Leaderless(),
        cast("ClusterView", source),
        cast("ClusterView", target),
        starts,
        store=MemoryCopyStore(),
        settings=CopySettings(),
        worker=UUID(int=1),
    )
    running = asyncio.create_task(steward.run())
    steward.attend_to(PartitionWork(SourcePartition(topic="a", topic_id=UUID(int=2), partition=0), "a", 0))
    try:
        assert await asyncio.wait_for(starts.asked, 10) == {"a"}
    finally:
        running.cancel()


async def test_a_target_that_is_in_doubt_is_not_read_by_what_was_known_of_it_before() -> None:
    """Its topic may have been made anew, which who takes it for the former one fills twice."""

    class View:
        problem: str | None = None
        looks = 0

        async def look(self) -> None:
            self.looks += 1
            self.problem = "nobody answers" if self.looks == 1 else None

    target, starts = View(), Starts()
    starts.attempts = 1
    owner = Owner()
    steward = SlowPartitionWork(
        owner,
        cast("ClusterView", None),
        cast("ClusterView", target),
        starts,
        store=MemoryCopyStore(),
        settings=CopySettings(),
        worker=UUID(int=1),
    )
    work = PartitionWork(SourcePartition(topic="a", topic_id=UUID(int=2), partition=0), "a", 0)
    work.replace_copy(copy := PartitionCopy(begun(OWN_SESSION, None), Pairing([], 0, 0), UUID(int=1)))
    copy.look("its offsets went backwards")
    running = asyncio.create_task(steward.run())
    steward.attend_to(work)
    try:
        assert await asyncio.wait_for(starts.asked, 10) == {"a"}
    finally:
        running.cancel()
    assert target.looks == 2
    assert work.status().reason == "nobody answers"


async def test_a_refused_batch_is_left_out_though_storing_that_has_failed_unexpectedly() -> None:
    """It is known to nobody but this partition, which would be held for ever."""
    went_on: asyncio.Future[PartitionWork] = asyncio.get_running_loop().create_future()

    class Going(Owner):
        def go_on(self, work: PartitionWork) -> None:
            went_on.set_result(work)

    class Store(MemoryCopyStore):
        failures = 1

        async def save(self, copies: Mapping[SourcePartition, StoredCopy]) -> None:
            if self.failures:
                self.failures -= 1
                raise RuntimeError("a bug")
            await super().save(copies)

    store = Store()
    steward = SlowPartitionWork(
        Going(),
        cast("ClusterView", None),
        cast("ClusterView", None),
        Starts(),
        store=store,
        settings=CopySettings(backoff_s_max=0.01),
        worker=UUID(int=1),
    )
    work = PartitionWork(SourcePartition(topic="a", topic_id=UUID(int=2), partition=0), "a", 0)
    work.replace_copy(copy := PartitionCopy(begun(OWN_SESSION, None), Pairing([], 0, 0), UUID(int=1)))
    records = encode_batch([Record(0, 1, b"k", b"v")], leader_epoch=0)
    copy.take(memoryview(bytearray(records)), (), high_watermark=1, last_stable_offset=-1)
    assert copy.next_to_send(1)
    copy.on_failed(ErrorCode.message_too_large, "too large")
    await store.begin_session(work.partition, OWN_SESSION)
    passing = asyncio.create_task(steward._pass_over(work, copy, "too large"))
    assert await asyncio.wait_for(went_on, 10) is work
    await passing
    assert not work.is_held
    assert store.stored["a", 0].next_source_offset == 1


async def test_the_first_end_of_a_source_s_leader_does_not_count_however_long_there_was_none_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever is just elected may not know yet how far its log is replicated."""
    ends = {EARLIEST: 0, LATEST: 3}

    async def list_offsets(_: object, leaders: Mapping[tuple[str, int], int], timestamp: int) -> dict[object, int]:
        return dict.fromkeys(leaders, ends[timestamp])

    class Patient(Owner):
        waits = 0

        def later(self, work: PartitionWork, reason: str, what: object, pause_s: float | None = None) -> None:
            self.waits += 1

        def go_on(self, work: PartitionWork) -> None:
            pass

    class View:
        cluster = None

    monkeypatch.setattr(slow_partition_work, "list_offsets", list_offsets)
    owner, view = Patient(), cast("ClusterView", View())
    steward = SlowPartitionWork(
        owner, view, view, Starts(), store=MemoryCopyStore(), settings=CopySettings(), worker=UUID(int=1)
    )
    work = PartitionWork(SourcePartition(topic="a", topic_id=UUID(int=2), partition=0), "a", 0)
    work.failures = 100
    work.replace_copy(copy := PartitionCopy(begun(OWN_SESSION, None), Pairing([], 0, 0), UUID(int=1)))
    copy.begin_at(5)
    for _ in range(ATTEMPTS_BEFORE_LOST):
        await steward._find_start(work, copy)
    assert (owner.waits, copy.needed) == (ATTEMPTS_BEFORE_LOST, None)
    ends[LATEST] = 5
    await steward._find_start(work, copy)
    ends[LATEST] = 3
    for _ in range(ATTEMPTS_BEFORE_LOST):
        await steward._find_start(work, copy)
    assert copy.needed is None
    await steward._find_start(work, copy)
    assert copy.needed is not None
    assert (copy.needed.need, copy.needed.source_offset) == (Need.NEW_SESSION, 3)
