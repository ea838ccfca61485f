"""Does for partitions what takes longer than a turn of the loop: taking over, looking, new sessions, dead letters.

A partition comes here when nothing of it is under way, and nothing of it is sent or taken in meanwhile.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, Protocol
from uuid import UUID

import structlog

from ottla_core.background import note_failure, start_detached
from ottla_core.client.errors import Refused
from ottla_core.errors import InvalidRecord, OttlaError
from ottla_mirror.copy.cluster_view import ClusterView
from ottla_mirror.copy.copy_settings import CopySettings
from ottla_mirror.copy.dead_letters import dead_letters, send_dead_letters
from ottla_mirror.copy.log_offsets import EARLIEST, LATEST, list_offsets
from ottla_mirror.copy.needs import Need, Needed
from ottla_mirror.copy.partition_copy import PartitionCopy
from ottla_mirror.copy.partition_start import ATTEMPTS_BEFORE_LOST, Failures, PartitionStart
from ottla_mirror.copy.partition_work import PartitionWork
from ottla_mirror.offsets.stored_copy import CopyStore

TAKEN_PAUSE_S: Final = 5.0
"""Before a partition is taken back that another worker has taken: one of both is about to hear that it is not its."""
log = structlog.get_logger("mirror")


class Starts(Protocol):
    """Takes partitions over; see `PartitionStarts`, `TransactionalStarts`."""

    async def begin(
        self, wanted: Mapping[PartitionWork, PartitionStart]
    ) -> tuple[dict[PartitionWork, PartitionCopy], Failures]:
        """Return the partitions that may go on, and why others may not."""
        ...


class SlowPartitionWorkOwner(Protocol):
    """Whose partitions they are; see `Copier`."""

    def is_ours(self, work: PartitionWork) -> bool:
        """Return whether a partition is still to be copied."""

    def locate(self, work: PartitionWork) -> str:
        """Bring a partition's leaders up to date; return what is missing, or ""."""

    def take_copy(self, work: PartitionWork, copy: PartitionCopy) -> None:
        """Go on with a state machine."""

    def go_on(self, work: PartitionWork) -> None:
        """Go on after what was needed has been done."""

    def halt(self, work: PartitionWork, reason: str) -> None:
        """Stop until somebody helps."""

    def later(
        self, work: PartitionWork, reason: str, what: Callable[[PartitionWork], None], pause_s: float | None = None
    ) -> None:
        """Do something after a pause, by default one that grows with the failures in a row."""


class SlowPartitionWork:
    """Attends to partitions.

    Args:
        owner: whose they are.
        source: leaders of the source.
        target: leaders of the target.
        beginnings: takes partitions over.
        store: where the copies are kept.
        settings: see there.
        worker: this worker, in this life of its process.
    """

    def __init__(
        self,
        owner: SlowPartitionWorkOwner,
        source: ClusterView,
        target: ClusterView,
        beginnings: Starts,
        *,
        store: CopyStore,
        settings: CopySettings,
        worker: UUID,
    ) -> None:
        self._owner = owner
        self._source = source
        self._target = target
        self._beginnings = beginnings
        self._store = store
        self._settings = settings
        self._worker = worker
        self._waiting: dict[PartitionWork, None] = {}
        self._attended: set[PartitionWork] = set()
        self._has_waiting = asyncio.Event()

    def attend_to(self, work: PartitionWork) -> None:
        """See soon what a partition needs."""
        self._waiting[work] = None
        self._has_waiting.set()

    def has_in_hand(self, work: PartitionWork) -> bool:
        """Whether something is being done for a partition right now."""
        return work in self._attended

    async def run(self) -> None:
        """Attend to partitions, for ever; those that come together are taken over together."""
        while True:
            await self._has_waiting.wait()
            self._has_waiting.clear()
            works = [work for work in self._waiting if work not in self._attended and self._is_ready(work)]
            self._waiting = {work: None for work in self._waiting if work in self._attended}
            if works:
                self._attended.update(works)
                attending = self._attend(works)
                start_detached("attending to copied partitions", attending, on_failure=partial(self._again, works))

    def _is_ready(self, work: PartitionWork) -> bool:
        """Whether something can be done; what waits for batches under way comes again when they are answered."""
        copy = work.copy
        # Where the source's log is can be asked at once, and nobody asks for it once more.
        has_to_wait = copy is not None and copy.in_flight > 0 and not (work.is_fetch_held and copy.needed is None)
        return self._owner.is_ours(work) and not work.is_halted and not has_to_wait

    async def _attend(self, works: Collection[PartitionWork]) -> None:
        try:
            problem: str | None = None
            if doubtful := {work for work in works if _doubts_target(work)}:
                # A topic of the target that was made anew takes batches as if nothing had happened, where they do not
                # say of which topic they are. Whoever takes it for the former one fills it twice.
                await self._target.look()
                problem = self._target.problem
            wanted: dict[PartitionWork, PartitionStart] = {}
            for work in works:
                if problem is not None and work in doubtful:
                    self._owner.later(work, problem, self.attend_to)
                    continue
                beginning = await self._beginning(work)
                if beginning is None:
                    continue
                if missing := self._owner.locate(work):
                    # Nothing is sent or fetched of it that could fail, so nobody else would ask for its leaders soon.
                    self._source.refresh()
                    self._target.refresh()
                    self._owner.later(work, missing, self.attend_to)
                else:
                    wanted[work] = beginning
            if wanted:
                await self._begin(wanted)
        finally:
            self._attended.difference_update(works)
            if self._waiting:
                self._has_waiting.set()

    def _again(self, works: Collection[PartitionWork]) -> None:
        """Come back, after an unexpected failure, to partitions that still need something: nobody else would."""
        for work in works:
            needs_something = work.copy is None or work.copy.needed is not None or work.is_fetch_held
            if needs_something and self._owner.is_ours(work) and not work.is_halted:
                self._owner.later(work, "it failed unexpectedly; the worker's log says why", self.attend_to)

    async def _begin(self, wanted: dict[PartitionWork, PartitionStart]) -> None:
        try:
            await self._store.save({work.partition: work.copy.copied for work in wanted if work.copy is not None})
            begun, failures = await self._beginnings.begin(wanted)
        except OttlaError as error:
            begun, failures = {}, dict.fromkeys(wanted, str(error))
        in_vain: dict[PartitionWork, PartitionStart] = {}
        for work, copy in begun.items():
            if not self._owner.is_ours(work):
                continue
            has_looked = work.copy is not None and work.copy.needed is not None and work.copy.needed.need is Need.LOOK
            if has_looked and (beginning := self._in_vain(work, copy)) is not None:
                in_vain[work] = beginning
            else:
                self._owner.take_copy(work, copy)
        if in_vain:
            await self._begin(in_vain)
        for work, reason in failures.items():
            self._target.refresh()
            self._owner.later(work, reason, self.attend_to)

    async def _beginning(self, work: PartitionWork) -> PartitionStart | None:
        """Return how a partition has to be taken over; None if it has not, or not now."""
        copy = work.copy
        if copy is None:
            return PartitionStart()
        if copy.needed is None:
            if work.is_fetch_held:
                await self._find_start(work, copy)
            return None
        needed = copy.needed
        if needed.need is not Need.LOOK:
            log.info("a partition needs attention", partition=str(work.partition), needs=needed.need.name,
                     offset=needed.source_offset, reason=needed.reason)  # fmt: skip
        if needed.need is Need.DAMAGED:
            self._owner.halt(work, f"{work.partition}, offset {needed.source_offset}: {needed.reason}")
            return None
        if needed.need is Need.REFUSED:
            return await self._on_refused(work, copy, needed)
        if needed.need is Need.OWN_SESSION and self._has_to_wait_for_another(work, copy):
            return None
        return self._look(work, copy, needed)

    def _look(self, work: PartitionWork, copy: PartitionCopy, needed: Needed) -> PartitionStart:
        if needed.need is Need.LOOK_AT_RECORDS:
            return PartitionStart(with_records=True)
        if needed.need is not Need.LOOK:
            # Not behind the position: between both there is nothing to copy, and the map would have a hole there.
            start = min(needed.source_offset, copy.map.source_end)
            return PartitionStart(new_session_at=start, replaces=copy.session.name)
        log.info("the target's log is read", partition=str(work.partition), reason=needed.reason)
        return PartitionStart(replaces=copy.session.name, target_cut_at=copy.target_cut_at)

    def _in_vain(self, work: PartitionWork, copy: PartitionCopy) -> PartitionStart | None:
        """Return how to go on if the target was read twice for the same position, and nothing was found there.

        It does not take what follows then, and has nothing that explains it: it has lost its producers' states. Once
        is not enough, as a new leader may not show all at first. What another worker has written meanwhile is found.
        """
        position = (copy.session.name, copy.next_sequence, copy.map.source_end)
        is_in_vain = copy.has_found_all and work.looked_at == position
        work.looked_at = position if copy.has_found_all else None
        if not is_in_vain:
            return None
        log.warning("the target has lost the state of a producer", partition=str(work.partition))
        return PartitionStart(new_session_at=copy.map.source_end, replaces=copy.session.name)

    def _has_to_wait_for_another(self, work: PartitionWork, copy: PartitionCopy) -> bool:
        owner = copy.session.owner
        is_lost = owner not in (None, self._worker) and work.has_copied
        if not is_lost or work.is_taking_back:
            work.is_taking_back = False
            return False
        work.is_taking_back = True
        self._owner.later(work, "another worker copies this partition", self.attend_to, TAKEN_PAUSE_S)
        return True

    async def _on_refused(self, work: PartitionWork, copy: PartitionCopy, needed: Needed) -> PartitionStart | None:
        refused = copy.first
        assert refused is not None
        last = refused.next_offset - 1
        reason = f"{work.partition}, offsets {needed.source_offset} to {last}: refused by the target: {needed.reason}"
        topic = self._settings.dead_letter_topic
        if topic is None:
            self._owner.halt(work, reason)
            return None
        if copy.session.owner != self._worker:
            # Sequences go on without it, which another worker in the same session could see otherwise.
            return PartitionStart(new_session_at=copy.map.source_end, replaces=copy.session.name)
        try:
            letters = dead_letters(work.partition, refused, needed.reason)
            await send_dead_letters(self._target.cluster, topic, letters, self._settings)
        except (InvalidRecord, Refused) as error:
            self._owner.halt(work, f"{reason}; {error}")
            return None
        except OttlaError as error:
            self._owner.later(work, f"{reason}; {error}", self.attend_to)
            return None
        await self._pass_over(work, copy, reason)
        return None

    async def _pass_over(self, work: PartitionWork, copy: PartitionCopy, reason: str) -> None:
        """Leave a refused batch out; nothing behind it is sent before that is stored."""
        work.is_held = True
        work.refused += copy.pass_over().record_count
        log.warning("records have gone to the dead letter topic", reason=reason)
        while self._owner.is_ours(work):
            try:
                await self._store.save({work.partition: copy.copied})
                break
            except OttlaError as error:
                log.warning("a position cannot be stored", partition=str(work.partition), reason=str(error))
            except Exception as error:  # noqa: BLE001 - nobody comes back to what needs nothing more
                note_failure(
                    "storing of a position", error, partition=str(work.partition), consequence="it is repeated"
                )
            await asyncio.sleep(self._settings.backoff_s_max)
        work.is_held = False
        self._owner.go_on(work)

    async def _find_start(self, work: PartitionWork, copy: PartitionCopy) -> None:
        """See where the source's log is, since it does not have the offset that was asked for."""
        name = (work.partition.topic, work.partition.partition)
        leaders = {name: work.source_leader}
        earliest = (await list_offsets(self._source.cluster, leaders, EARLIEST))[name]
        latest = (await list_offsets(self._source.cluster, leaders, LATEST))[name]
        if isinstance(earliest, str) or isinstance(latest, str):
            self._source.refresh()
            self._owner.later(work, f"the source does not say where its log is: {earliest}", self.attend_to)
            return
        if latest >= copy.fetch_offset:
            work.short_ends = 0
        if earliest > copy.fetch_offset:
            log.warning("the source's retention has removed records before they were copied",
                        partition=str(work.partition), start=copy.fetch_offset, end=earliest)  # fmt: skip
            copy.begin_at(earliest)
        elif latest < copy.fetch_offset:
            if work.short_ends < ATTEMPTS_BEFORE_LOST:
                work.short_ends += 1
                reason = f"the source's log ends at {latest}, before what was fetched"
                self._owner.later(work, reason, self.attend_to)
                return
            work.short_ends = 0
            copy.part_at(latest, f"the source has lost its records from offset {latest} on")
        else:
            # Perhaps it knows nothing of the epoch either, which passes when its leader knows how far it is.
            reason = (
                f"the source has offset {copy.fetch_offset}, between {earliest} and {latest}, and does not give it"
            )
            self._owner.later(work, reason, self._owner.go_on)
            return
        self._owner.go_on(work)


def _doubts_target(work: PartitionWork) -> bool:
    """Whether it is not known what the target has of a partition."""
    needed = work.copy.needed if work.copy is not None else None
    return needed is not None and needed.need is Need.LOOK
