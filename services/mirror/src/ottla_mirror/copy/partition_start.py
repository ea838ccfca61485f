"""How partitions are taken over: stored position, session, what the target has beyond; for many at once.

It is done again whenever a partition's state machine does not know what the target has, or needs another session.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import structlog
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest

from ottla_core.client.cluster_metadata import NO_TOPIC_ID
from ottla_core.client.errors import Unreachable
from ottla_core.wire.conversion import message_of
from ottla_mirror.copy.cluster_view import ClusterView
from ottla_mirror.copy.copy_settings import CopySettings
from ottla_mirror.copy.log_offsets import EARLIEST, LATEST, Partition, list_offsets
from ottla_mirror.copy.partition_copy import NO_OFFSET, PartitionCopy
from ottla_mirror.copy.partition_work import PartitionWork
from ottla_mirror.copy.takeover import Pairing, TargetScan
from ottla_mirror.copy.target_scan import ScanTask, scan_targets
from ottla_mirror.copy.transactions.target_transactions import producer_of
from ottla_mirror.copy.transactions.transaction_rules import transactional_id
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.offset_map import OffsetMap
from ottla_mirror.offsets.stored_copy import CopyStore, Session, SessionName, StoredCopy

PRODUCER_EPOCH_MAX: Final = 2**15 - 2
"""Kafka does not let a producer have the highest epoch."""
ATTEMPTS_BEFORE_LOST: Final = 8
"""A leader that was just elected may not know yet how far its log is replicated."""
TIMEOUT_S: Final = 15.0
FENCING_TIMEOUT_MS: Final = 60_000
"""Of transactions of a producer that never has one."""
log = structlog.get_logger("mirror")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStart:
    """How a partition is to be taken over.

    Attributes:
        new_session_at: the source offset at which a session of this worker's own has to begin; None if the stored
            one will do.
        replaces: the session for which that was found; if another one holds by now, that one will do.
        target_cut_at: the offset from which on the target has lost what was copied, and may have something else by
            now; -1 if nothing tells of that. Known of `replaces`.
        with_records: whether the records that the target has are to be compared.
    """

    new_session_at: int | None = None
    replaces: SessionName | None = None
    target_cut_at: int = NO_OFFSET
    with_records: bool = False


Failures = dict[PartitionWork, str]


class StartOffsets:
    """Finds out where copies have to begin that do not simply go on.

    Args:
        source: leaders of the source.
        target: leaders of the target.
        settings: see there.
    """

    def __init__(self, source: ClusterView, target: ClusterView, settings: CopySettings) -> None:
        self._source = source
        self._target = target
        self._settings = settings

    async def at_target(
        self, works: Sequence[PartitionWork], timestamp: int, failures: Failures
    ) -> dict[PartitionWork, int]:
        """Return an offset of each partition's log at the target; what fails is noted."""
        return await self._offsets(self._target, works, timestamp, failures)

    async def starts(
        self,
        wanted: Mapping[PartitionWork, PartitionStart],
        stored: Mapping[SourcePartition, StoredCopy],
        ends: Mapping[PartitionWork, int],
        failures: Failures,
    ) -> dict[PartitionWork, int]:
        """Return the source offset at which another session has to begin, for partitions where one has to.

        Args:
            wanted: how they are to be taken over.
            stored: how far they were copied.
            ends: of their logs at the target.
            failures: takes the reasons why some cannot be taken over now.
        """
        starts: dict[PartitionWork, int] = {}
        from_start: list[PartitionWork] = []
        for work, beginning in wanted.items():
            copied = stored.get(work.partition)
            if copied is None or _is_of_other_topics(copied.session, work):
                work.short_ends = 0
                from_start.append(work)
                continue
            cut_at = cut_of(copied, beginning, ends[work])
            # Also before a session that has to begin anyway: it forgets what the map has behind the target's end.
            # Not by the failures in a row: after those of an election, the new leader's first word would count.
            if cut_at == ends[work] and work.short_ends < ATTEMPTS_BEFORE_LOST:
                work.short_ends += 1
                failures[work] = f"the target's log ends at {ends[work]}, before what was copied"
                continue
            work.short_ends = 0
            if cut_at is not None:
                log.warning("the target has lost records", partition=str(work.partition), end=cut_at)
            if (start := session_start(copied, beginning, cut_at)) is not None:
                starts[work] = start
        # What was never copied begins where the settings say, and a topic that was created anew at its start.
        for timestamp, some in _by_start(from_start, stored, self._settings).items():
            starts.update(await self._offsets(self._source, some, timestamp, failures))
        return starts

    async def _offsets(
        self, view: ClusterView, works: Sequence[PartitionWork], timestamp: int, failures: Failures
    ) -> dict[PartitionWork, int]:
        """Return an offset of each partition's log at the source or the target; what fails is noted."""
        name, leader = (_target_name, _target_leader) if view is self._target else (_source_name, _source_leader)
        found = await list_offsets(view.cluster, {name(work): leader(work) for work in works}, timestamp)
        offsets: dict[PartitionWork, int] = {}
        for work in works:
            offset = found[name(work)]
            if isinstance(offset, int) and offset >= 0:
                offsets[work] = offset
            else:
                failures[work] = f"the {view.role} does not say where the log of {name(work)[0]} is: {offset}"
                view.refresh()
        return offsets


class PartitionStarts:
    """Takes partitions over.

    Args:
        source: leaders of the source.
        target: leaders of the target.
        store: where the copies are kept.
        settings: see there.
        worker: this worker, in this life of its process.
    """

    def __init__(
        self,
        source: ClusterView,
        target: ClusterView,
        store: CopyStore,
        settings: CopySettings,
        worker: UUID,
    ) -> None:
        self._source = source
        self._target = target
        self._store = store
        self._settings = settings
        self._worker = worker
        self._producer_id: int | None = None
        self._offsets = StartOffsets(source, target, settings)

    async def begin(
        self, wanted: Mapping[PartitionWork, PartitionStart]
    ) -> tuple[dict[PartitionWork, PartitionCopy], Failures]:
        """Take partitions over; return those that may go on, and why others may not.

        The works' leaders and topic ids are known already.

        Raises:
            OttlaError: the store or the target does not answer; nothing was taken over.
        """
        failures: Failures = {}
        # In this order: what is stored by then lies before the end.
        stored = await self._store.load([work.partition for work in wanted])
        if any(each.session.is_transactional for each in stored.values()):
            stored = await self._after_transactions(stored)
        ends = await self._offsets.at_target(list(wanted), LATEST, failures)
        await self._begin_sessions({work: wanted[work] for work in ends}, stored, ends, failures)
        tasks, pairings = [], {}
        for work in [each for each in ends if each not in failures]:
            copied = stored[work.partition]
            scan = TargetScan(
                copied.session.name,
                copied.next_sequence,
                copied.target_offset,
                with_records=wanted[work].with_records,
            )
            pairings[work] = (copied, scan)
            if ends[work] > copied.target_offset:
                tasks.append(ScanTask(work, scan, ends[work]))
        failures.update(await scan_targets(self._target.cluster, tasks, self._settings))
        begun = {
            work: PartitionCopy(
                copied, Pairing(scan.found, copied.next_sequence, copied.next_source_offset), self._worker
            )
            for work, (copied, scan) in pairings.items()
            if work not in failures
        }
        return begun, failures

    async def _begin_sessions(
        self,
        wanted: Mapping[PartitionWork, PartitionStart],
        stored: dict[SourcePartition, StoredCopy],
        ends: Mapping[PartitionWork, int],
        failures: Failures,
    ) -> None:
        """Have each partition have a session that holds; `stored` is brought up to date."""
        starts = await self._offsets.starts(wanted, stored, ends, failures)
        for work in wanted:
            copied = stored.get(work.partition)
            if copied is not None and copied.session.is_transactional and work not in failures:
                starts.setdefault(work, copied.next_source_offset)
        if not starts:
            return
        sessions = [
            (work.partition, await self._session(work, start, stored.get(work.partition), ends[work]))
            for work, start in starts.items()
        ]
        await asyncio.gather(*(self._store.begin_session(partition, session) for partition, session in sessions))
        stored.update(await self._store.load([partition for partition, _ in sessions]))

    async def _after_transactions(
        self, stored: Mapping[SourcePartition, StoredCopy]
    ) -> dict[SourcePartition, StoredCopy]:
        """Return what is stored once nobody writes these partitions in transactions any more."""
        alias, cluster = self._settings.source_alias, self._target.cluster
        ids = [transactional_id(alias, each) for each, found in stored.items() if found.session.is_transactional]
        fencing = [producer_of(cluster, each, timeout_ms=FENCING_TIMEOUT_MS, within_s=TIMEOUT_S) for each in ids]
        await asyncio.gather(*fencing)
        return await self._store.load(list(stored))

    async def _session(self, work: PartitionWork, start: int, before: StoredCopy | None, target_end: int) -> Session:
        """Return the session to begin: the first of a partition may be shared, all others are this worker's own."""
        has_own_producer = before is not None and not before.session.is_transactional
        if before is not None and has_own_producer and before.session.producer_epoch < PRODUCER_EPOCH_MAX:
            # A higher epoch of the same producer keeps out whoever still writes in the session before.
            producer_id, epoch = before.session.producer_id, before.session.producer_epoch + 1
        else:
            producer_id, epoch = await self._own_producer_id(is_new=before is not None), 0
        return Session(
            producer_id=producer_id,
            producer_epoch=epoch,
            source_topic_id=work.partition.topic_id,
            source_start_offset=start,
            target_topic_id=work.target_topic_id,
            target_start_offset=target_end,
            replaces=None if before is None else before.session.name,
            owner=None if before is None else self._worker,
        )

    async def _own_producer_id(self, *, is_new: bool) -> int:
        if self._producer_id is None or is_new:
            request = message_of(InitProducerIdRequest, transactional_id=None)
            response = await self._target.cluster.ask_any(request, timeout_s=TIMEOUT_S)
            if response.error_code is not ErrorCode.none:
                raise Unreachable(f"the target gives no producer id: {response.error_code.name}")
            self._producer_id = int(response.producer_id)
        return self._producer_id


def cut_of(copied: StoredCopy, beginning: PartitionStart, target_end: int) -> int | None:
    """Return the target offset from which on the target has lost what was copied, or None.

    Its end alone does not tell, as what was sent since may stand in place of what is lost.
    """
    is_known = beginning.target_cut_at != NO_OFFSET and beginning.replaces == copied.session.name
    cut_at = min(target_end, beginning.target_cut_at) if is_known else target_end
    return cut_at if cut_at < copied.target_offset else None


def session_start(copied: StoredCopy, beginning: PartitionStart, cut_at: int | None) -> int | None:
    """Return the source offset at which another session has to begin, or None if the stored one will do.

    Args:
        copied: what is stored.
        beginning: why the partition is taken over.
        cut_at: from where on the target has lost what was copied; what stood there is copied again.
    """
    is_asked_for = beginning.new_session_at is not None and beginning.replaces == copied.session.name
    found = [beginning.new_session_at] if is_asked_for else []
    found += [] if cut_at is None else [source_offset_of(copied.map, cut_at)]
    return min((each for each in found if each is not None), default=None)


def source_offset_of(offset_map: OffsetMap, target_offset: int) -> int:
    """Return the source offset of the first record that is not below an offset of the target."""
    for run in offset_map.runs():
        if run.target_end > target_offset:
            return run.source + max(0, target_offset - run.target)
    return offset_map.source_end


def _is_of_other_topics(session: Session, work: PartitionWork) -> bool:
    """Return whether a session is about another life of either topic; an id that is not known tells nothing."""
    pairs = ((session.source_topic_id, work.partition.topic_id), (session.target_topic_id, work.target_topic_id))
    return any(NO_TOPIC_ID not in pair and pair[0] != pair[1] for pair in pairs)


def _by_start(
    works: Sequence[PartitionWork],
    stored: Mapping[SourcePartition, StoredCopy],
    settings: CopySettings,
) -> dict[int, list[PartitionWork]]:
    by_start: dict[int, list[PartitionWork]] = {}
    for work in works:
        is_first = work.partition not in stored and not settings.is_added(work.partition)
        by_start.setdefault(LATEST if is_first and settings.start == "latest" else EARLIEST, []).append(work)
    return by_start


def _source_name(work: PartitionWork) -> Partition:
    return work.partition.topic, work.partition.partition


def _target_name(work: PartitionWork) -> Partition:
    return work.target_topic, work.partition.partition


def _source_leader(work: PartitionWork) -> int:
    return work.source_leader


def _target_leader(work: PartitionWork) -> int:
    return work.target_leader
