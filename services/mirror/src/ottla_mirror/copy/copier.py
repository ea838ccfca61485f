"""Copies the partitions of a flow that this worker was given: the shell around the rules of this folder.

Most of it runs on callbacks: a fetcher for each broker of the source hands in what it got, and what there is to send
is written with or without transactions (`transactional_writing.py`, `idempotent_writing.py`). Whatever takes longer
(taking a partition over, finding out what the target has, a new session, dead letters) is done by the *steward*.

Memory is bounded by `CopySettings.buffer_bytes_max`: nothing is fetched while as much is not acknowledged, and what
fetches under way may bring is part of it.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final, cast
from uuid import uuid4

import structlog
from kio.schema.errors import ErrorCode

from ottla_core.background import start_recurring
from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.cluster_metadata import NO_TOPIC_ID
from ottla_core.wire.consumer_fetch import PartitionAnswer
from ottla_mirror.copy.cluster_view import ClusterView
from ottla_mirror.copy.copy_settings import CopySettings
from ottla_mirror.copy.fetch_budget import FetchBudget
from ottla_mirror.copy.idempotent_writing import IdempotentWriting
from ottla_mirror.copy.needs import Need
from ottla_mirror.copy.partition_copy import PartitionCopy
from ottla_mirror.copy.partition_work import (
    FAILURES_BEFORE_WAY,
    NO_LEADER,
    WAIT_BEFORE_WAY_S,
    PartitionState,
    PartitionStatus,
    PartitionWork,
)
from ottla_mirror.copy.rate_limit import RateLimit
from ottla_mirror.copy.slow_partition_work import TAKEN_PAUSE_S, SlowPartitionWork
from ottla_mirror.copy.source_fetcher import SourceFetcher
from ottla_mirror.copy.transactions.transactional_writing import TransactionalWriting
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.stored_copy import CopyStore, TransactionalStore

RELEASE_TIMEOUT_S: Final = 10.0
RELEASE_POLL_S: Final = 0.02
log = structlog.get_logger("mirror")


class Copier:
    """Copies the partitions that it is assigned from one cluster to another.

    Args:
        source: the cluster to copy from.
        target: the cluster to copy to.
        store: where positions, sessions and maps are kept: one for transactions, if the settings have any.
        settings: see there.
        coordinators: with transactions, clusters to ask the target's coordinators by; the maker closes them.
    """

    def __init__(
        self,
        source: AsyncCluster,
        target: AsyncCluster,
        store: CopyStore | TransactionalStore,
        settings: CopySettings,
        coordinators: Collection[AsyncCluster] = (),
    ) -> None:
        self._settings = settings
        self._worker = uuid4()
        self._source = ClusterView(source, "source", self._on_leaders, age_s_max=settings.metadata_age_s_max)
        self._target = ClusterView(target, "target", self._on_leaders, age_s_max=settings.metadata_age_s_max)
        self._writing: IdempotentWriting | TransactionalWriting
        if settings.transactions is None:
            self._writing = IdempotentWriting(
                self,
                self._source,
                self._target,
                store=cast("CopyStore", store),
                settings=settings,
                worker=self._worker,
            )
        else:
            self._writing = TransactionalWriting(
                self,
                self._source,
                self._target,
                coordinators=coordinators,
                store=cast("TransactionalStore", store),
                settings=settings,
                worker=self._worker,
            )
        self._steward = SlowPartitionWork(
            self,
            self._source,
            self._target,
            self._writing.starts,
            store=self._writing.store,
            settings=settings,
            worker=self._worker,
        )
        self._works: dict[SourcePartition, PartitionWork] = {}
        self._fetchers: dict[int, SourceFetcher] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._room = asyncio.Event()
        self._rate = RateLimit()
        self._budget = FetchBudget()
        self.buffered_bytes = self._buffered_bytes_full = 0
        self.limit_buffer(settings.buffer_bytes_max)
        self._loop = asyncio.get_running_loop()
        for kind, run in (
            ("watching the source's leaders", self._source.run),
            ("watching the target's leaders", self._target.run),
            ("taking partitions over", self._steward.run),
            *self._writing.background(),
        ):
            self._tasks.append(start_recurring(kind, run))

    # What others ask of it

    async def assign(self, partitions: Mapping[SourcePartition, str]) -> None:
        """Copy these partitions into topics of the target, and no others any more.

        What is not to be copied any more is finished, as far as it is under way, and saved.
        """
        gone = [work for each, work in self._works.items() if partitions.get(each) != work.target_topic]
        for work in gone:
            del self._works[work.partition]
        await self._release(gone)
        for partition, target_topic in partitions.items():
            if partition not in self._works:
                work = self._works[partition] = PartitionWork(partition, target_topic, time.time())
                self._steward.attend_to(work)
        self._source.want({each.topic for each in self._works})
        self._target.want({each.target_topic for each in self._works.values()})

    def status(self) -> dict[SourcePartition, PartitionStatus]:
        """Return how each partition fares."""
        return {partition: work.status() for partition, work in self._works.items()}

    def pause(self, partitions: Collection[SourcePartition] | None = None) -> None:
        """Fetch and send nothing more of some partitions, or of all; what is under way is finished."""
        self._set_paused(partitions, is_paused=True)

    def resume(self, partitions: Collection[SourcePartition] | None = None) -> None:
        """Go on with some partitions, or with all."""
        self._set_paused(partitions, is_paused=False)

    def retry(self, partition: SourcePartition) -> None:
        """Try again to copy a partition that has halted."""
        work = self._works.get(partition)
        if work is not None and work.is_halted:
            self._replace_copy(work, None)
            self._set_state(work, PartitionState.WAITING, "it is tried again")
            self._steward.attend_to(work)

    def throttle(self, bytes_per_s: float | None) -> None:
        """Fetch no more than so many bytes per second; None for no limit."""
        self._rate.bytes_per_s = bytes_per_s
        self._room.set()

    def limit_buffer(self, buffer_bytes_max: int) -> None:
        """Fetch nothing more while so many bytes are not acknowledged, in place of what the settings say."""
        room_bytes = min(self._settings.partition_bytes_max, buffer_bytes_max // 2)
        self._buffer_bytes_max, self._buffered_bytes_full = buffer_bytes_max, buffer_bytes_max - room_bytes
        if self._has_room:
            self._room.set()

    async def close(self) -> None:
        """Finish what is under way, save, and end."""
        works = list(self._works.values())
        self._works.clear()
        await self._release(works)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._writing.close()

    # What fetchers tell

    def reserve(self, broker_id: int) -> int:
        """Return how many bytes a fetch may bring; they are set aside for it."""
        return self._budget.reserve(
            broker_id,
            free_bytes=self._buffer_bytes_max - self.buffered_bytes,
            bytes_max=self._settings.fetch_bytes_max,
            fetchers=sum(not each.is_idle for each in self._fetchers.values()),
        )

    def release(self, broker_id: int) -> None:
        """Set nothing aside for a fetch any more."""
        self._budget.release(broker_id)

    @property
    def _has_room(self) -> bool:
        """Whether it is worth while to fetch: a little at a time would cost too much."""
        return self.buffered_bytes <= self._buffered_bytes_full

    async def wait_for_room(self) -> None:
        """Wait until more may be fetched."""
        while (wait_s := self._rate.wait_s(self._loop.time())) or not self._has_room:
            self._room.clear()
            try:
                async with asyncio.timeout(wait_s or None):
                    await self._room.wait()
            except TimeoutError:
                continue

    def on_fetched(self, work: PartitionWork, answer: PartitionAnswer, records: memoryview) -> None:
        """Take the answer about a partition."""
        copy = work.copy
        if copy is None:
            return
        if answer.error_code is not ErrorCode.none:
            self._on_fetch_failed(work, answer.error_code)
            return
        if answer.diverging_epoch is not None:
            copy.part_from(*answer.diverging_epoch)
        else:
            self._rate.take(len(records), self._loop.time())
            work.source_start = answer.log_start_offset
            copy.take(
                records,
                answer.aborted,
                high_watermark=answer.high_watermark,
                last_stable_offset=answer.last_stable_offset,
            )
            if not (work.is_halted or work.is_held or copy.has_failed):
                self._set_state(work, PartitionState.RUNNING, "")
        self._account(work)
        self._look_after(work)
        self._writing.send(work)

    def on_source_failed(self, works: list[PartitionWork], reason: str) -> None:
        """Take note that a broker of the source does not answer."""
        for work in works:
            if not work.is_halted:
                self._set_state(work, PartitionState.WAITING, f"the source does not answer: {reason}")
        self._source.refresh()

    # What producers tell

    def on_room(self, work: PartitionWork) -> None:
        """Take note that so little of a partition is waiting to be sent that more may be fetched."""
        fetcher = self._fetchers.get(work.source_leader)
        if fetcher is not None:
            fetcher.on_room(work)

    def on_produced(self, work: PartitionWork) -> None:
        """Look at a partition of which batches were answered; it may have halted since."""
        if work.failures and work.copy is not None and not (work.copy.has_failed or work.is_halted):
            work.failures = 0
            self._set_state(work, PartitionState.RUNNING, "")
            if work.has_given_way:
                work.has_given_way = False
                self._touch(work)
        self._account(work)
        self._look_after(work)

    def on_answered(self, work: PartitionWork) -> None:
        """Take note that a batch was answered, whose memory is free."""
        self._account(work)

    def refresh_target(self) -> None:
        """Ask for the target's leaders anew."""
        self._target.refresh()

    def begin_anew(self, work: PartitionWork, reason: str, *, is_taken: bool) -> None:
        """Take a partition over from what is committed, later if another worker has taken it."""
        if not self.is_ours(work) or work.is_halted:
            return
        copy = work.copy
        if work.refused_at is not None:
            self._replace_copy(work, None)  # what was refused is decided with the next attempt
        elif copy is not None:
            copy.drop()  # it is fetched again; until then, which may be long, others need the memory
            if copy.needed is not None and copy.needed.need is Need.DAMAGED:
                copy.needed = None  # damage is met again when all before it is copied
                copy.look(reason)
        self._account(work)
        self._target.refresh()
        self.later(work, reason, self._steward.attend_to, TAKEN_PAUSE_S if is_taken else None)

    def on_target_failed(self, reason: str) -> None:
        """Take note that a broker of the target does not answer."""
        log.info("a broker of the target does not answer", reason=reason)
        self._target.refresh()

    def on_unreachable(self, works: Collection[PartitionWork], reason: str, for_s: float) -> None:
        """Take note of partitions whose broker cannot be connected to for a while, though it may well lead them."""
        if for_s >= WAIT_BEFORE_WAY_S:
            for work in works:
                self._give_way(work, reason)

    # The steady state

    def _account(self, work: PartitionWork) -> None:
        held = 0 if work.copy is None else work.copy.buffered_bytes
        if held != work.accounted_bytes:
            before = self.buffered_bytes
            after = self.buffered_bytes = before + held - work.accounted_bytes
            work.accounted_bytes = held
            if before > self._buffered_bytes_full >= after:
                self._room.set()

    def _look_after(self, work: PartitionWork) -> None:
        """Have done what a partition needs, if it needs anything."""
        self._writing.note(work)
        copy = work.copy
        if copy is None or copy.in_flight or not self._writing.is_settled(work):
            return
        if copy.needed is not None:
            self._steward.attend_to(work)
        elif copy.may_repeat and self._writing.repeats and not work.is_held:
            failure = copy.failure
            reason = "" if failure is None else failure.message or failure.error.name
            reason = f"the target did not take a batch: {reason}"
            self._target.refresh()
            if work.failures >= FAILURES_BEFORE_WAY:
                self._give_way(work, reason)
            if work.copy is copy:
                work.is_held = True  # until the pause is over
                self.later(work, reason, self._repeat)

    def holds_up_others(self, work: PartitionWork) -> bool:
        """Return whether a partition has memory that others lack."""
        return work.accounted_bytes > 0 and not self._has_room

    def _give_way(self, work: PartitionWork, reason: str) -> None:
        """Forget what was fetched of a partition that the target does not take, where others lack the memory.

        It is taken over anew later. Not if it needs something, or will: it may know of the target what is stored
        nowhere. A session of this worker's own goes on with what was sent (see `PartitionCopy.forget_unsent`); in a
        shared one, whoever takes over sends the same under the same sequences.
        """
        copy = work.copy
        if copy is None or copy.in_flight or not copy.buffered_bytes or not copy.knows_nothing_else:
            return
        if not self.holds_up_others(work):
            return
        if not self._writing.repeats or not self.is_ours(work) or self._steward.has_in_hand(work):
            return
        if copy.session.owner is None:
            self._replace_copy(work, None)
            self.later(work, reason, self._steward.attend_to)
            return
        work.forget_unsent()
        work.has_given_way = True
        work.failures = max(work.failures, 1)  # so that the next batch that is taken is noticed
        self._set_state(work, PartitionState.WAITING, reason)
        self._account(work)
        self._touch(work)

    def _repeat(self, work: PartitionWork) -> None:
        work.is_held = False
        if work.copy is None or not self.is_ours(work):
            return
        self.locate(work)
        if work.copy.may_repeat:
            work.copy.repeat()
        self._touch(work)
        self._writing.send(work)

    def _on_fetch_failed(self, work: PartitionWork, error: ErrorCode) -> None:
        work.is_fetch_held = True
        self._touch(work)
        if error is ErrorCode.offset_out_of_range:
            self._steward.attend_to(work)
            return
        self._source.refresh()
        self.later(work, f"the source does not give its records: {error.name}", self._fetch_again)

    def _fetch_again(self, work: PartitionWork) -> None:
        work.is_fetch_held = False
        self.locate(work)
        self._touch(work)

    def _touch(self, work: PartitionWork) -> None:
        fetcher = self._fetchers.get(work.source_leader)
        if fetcher is not None:
            fetcher.touch(work)

    # Leaders

    def _on_leaders(self) -> None:
        now_s = time.time()
        for work in self._works.values():
            self.locate(work)
            if work.has_waited(WAIT_BEFORE_WAY_S, now_s) and (problem := self._locate_target(work)):
                self._give_way(work, problem)

    def locate(self, work: PartitionWork) -> str:
        """Take over what is known of a partition's leaders; return what is missing, or ""."""
        if not self.is_ours(work):
            return "it is not to be copied here any more"
        problem = self._locate_source(work) or self._locate_target(work)
        if problem and work.copy is not None and not work.is_halted:
            self._set_state(work, PartitionState.WAITING, problem)
        return problem

    def _locate_source(self, work: PartitionWork) -> str:
        name, number = work.partition.topic, work.partition.partition
        topic = self._source.topic(name)
        if topic is None:
            return self._source.problem or "the source has not been asked yet"
        if topic.id != work.partition.topic_id and NO_TOPIC_ID not in (topic.id, work.partition.topic_id):
            self._move_source(work, NO_LEADER, -1)
            return f"the source has deleted the topic {name}, or created it anew"
        partition = self._source.partition(name, number)
        if partition is None:
            return f"the source has no leader for {work.partition}: {topic.error.name}"
        self._move_source(work, partition.leader, partition.leader_epoch)
        return ""

    def _move_source(self, work: PartitionWork, leader: int, epoch: int) -> None:
        if leader != work.source_leader:
            if (former := self._fetchers.get(work.source_leader)) is not None:
                former.remove(work)
            work.source_leader, work.source_leader_epoch = leader, epoch
            if leader != NO_LEADER:
                self._fetcher(leader).add(work)
        elif epoch != work.source_leader_epoch:
            work.source_leader_epoch = epoch
            self._touch(work)

    def _locate_target(self, work: PartitionWork) -> str:
        name, number = work.target_topic, work.partition.partition
        topic = self._target.topic(name)
        if topic is None:
            return self._target.problem or "the target has not been asked yet"
        partition = self._target.partition(name, number)
        if partition is None:
            return f"the target has no leader for {name}-{number}: {topic.error.name}"
        if work.copy is not None and work.copy.in_flight:
            return ""  # what is under way is answered by the former leader
        if topic.id != work.target_topic_id:
            work.target_topic_id = topic.id
            if work.copy is not None:
                work.copy.look("the target's topic was created anew")
                self._look_after(work)
        if partition.leader != work.target_leader:
            work.target_leader = partition.leader
            self._writing.send(work)
        return ""

    def _fetcher(self, broker_id: int) -> SourceFetcher:
        fetcher = self._fetchers.get(broker_id)
        if fetcher is None:
            fetcher = self._fetchers[broker_id] = SourceFetcher(self._source.cluster, broker_id, self._settings, self)
            self._tasks.append(start_recurring("fetching from the source", fetcher.run, broker=broker_id))
        return fetcher

    # What the steward asks for

    def is_ours(self, work: PartitionWork) -> bool:
        """Return whether a partition is still to be copied."""
        return self._works.get(work.partition) is work

    def take_copy(self, work: PartitionWork, copy: PartitionCopy) -> None:
        """Go on with a state machine."""
        self._replace_copy(work, copy)
        work.is_held = work.is_fetch_held = work.has_given_way = False
        self._set_state(work, PartitionState.RUNNING, "")
        self._writing.note(work)
        self._touch(work)

    def go_on(self, work: PartitionWork) -> None:
        """Go on after what was needed has been done."""
        work.is_fetch_held = False
        if work.copy is not None and not work.copy.buffered_bytes:
            work.has_given_way = False  # what was left was refused for good, so that no answer tells
        self._account(work)
        self._touch(work)
        self._look_after(work)
        self._writing.send(work)

    def halt(self, work: PartitionWork, reason: str) -> None:
        """Stop until somebody helps."""
        if work.copy is not None:
            work.copy.drop()
        self._account(work)
        self._set_state(work, PartitionState.HALTED, reason)

    def later(
        self, work: PartitionWork, reason: str, what: Callable[[PartitionWork], None], pause_s: float | None = None
    ) -> None:
        """Do something after a pause, by default one that grows with the failures in a row."""
        if pause_s is None:
            pause_s = min(self._settings.backoff_s_min * 2 ** min(work.failures, 16), self._settings.backoff_s_max)
        work.failures += 1
        self._set_state(work, PartitionState.WAITING, reason)
        self._loop.call_later(pause_s, what, work)

    def _replace_copy(self, work: PartitionWork, copy: PartitionCopy | None) -> None:
        work.replace_copy(copy)
        self._account(work)

    def _set_state(self, work: PartitionWork, state: PartitionState, reason: str) -> None:
        if work.set_state(state, reason, time.time()) and state is PartitionState.HALTED:
            log.error("the copy of a partition has halted", partition=str(work.partition), reason=reason)

    def _set_paused(self, partitions: Collection[SourcePartition] | None, *, is_paused: bool) -> None:
        for partition, work in self._works.items():
            if partitions is None or partition in partitions:
                work.is_paused = is_paused
                self._touch(work)
                self._writing.send(work)

    # Letting go, and saving

    async def _release(self, works: Collection[PartitionWork]) -> None:
        """Finish what is under way of partitions that are not ours any more, and save where they stand."""
        for work in works:
            work.is_paused = True
            self._move_source(work, NO_LEADER, -1)
        deadline_s = self._loop.time() + RELEASE_TIMEOUT_S
        # Several partitions end in several ways, and this is rare: it is simplest to look now and then.
        self._writing.finish(works)
        while self._loop.time() < deadline_s and any(self._is_busy(work) for work in works):  # noqa: ASYNC110
            await asyncio.sleep(RELEASE_POLL_S)
        await self._writing.save(works)
        for work in works:
            self._replace_copy(work, None)

    def _is_busy(self, work: PartitionWork) -> bool:
        return self._steward.has_in_hand(work) or self._writing.is_busy(work)
