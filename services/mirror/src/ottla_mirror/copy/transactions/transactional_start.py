"""How partitions are taken over that are written in transactions: fence, read what is committed, go on there.

Nothing has to be found in the target's log, as the position is there if, and only if, the records are. That is not so
for what was copied before, without transactions: whoever begins with them finds out as `partition_start.py` does, and
the first transaction says that there is nothing to find any more.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from ottla_core.errors import OttlaError
from ottla_mirror.copy.cluster_view import ClusterView
from ottla_mirror.copy.copy_settings import CopySettings
from ottla_mirror.copy.log_offsets import LATEST
from ottla_mirror.copy.partition_copy import PartitionCopy
from ottla_mirror.copy.partition_start import Failures, PartitionStart, StartOffsets
from ottla_mirror.copy.partition_work import PartitionWork
from ottla_mirror.copy.takeover import Pairing, TargetScan
from ottla_mirror.copy.target_scan import ScanTask, scan_targets
from ottla_mirror.copy.transactions.target_transactions import TargetTransactions
from ottla_mirror.copy.transactions.transaction_rules import Producer, transactional_id
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.stored_copy import Session, StoredCopy, TransactionalStore, begun


class TransactionalStarts:
    """Takes partitions over.

    Args:
        source: leaders of the source.
        target: leaders of the target.
        requests: of transactions, at the target.
        store: where the copies are kept.
        settings: see there.
        worker: this worker, in this life of its process.
    """

    def __init__(
        self,
        source: ClusterView,
        target: ClusterView,
        requests: TargetTransactions,
        *,
        store: TransactionalStore,
        settings: CopySettings,
        worker: UUID,
    ) -> None:
        self._target = target
        self._requests = requests
        self._store = store
        self._settings = settings
        self._alias = settings.source_alias
        self._worker = worker
        self._offsets = StartOffsets(source, target, settings)

    async def begin(
        self, wanted: Mapping[PartitionWork, PartitionStart]
    ) -> tuple[dict[PartitionWork, PartitionCopy], Failures]:
        """Take partitions over; return those that may go on, and why others may not; see `PartitionStarts.begin`.

        Raises:
            OttlaError: the store or the target does not answer; others are fenced all the same.
        """
        failures: Failures = {}
        await self._requests.look()
        producers = await self._fence(wanted, failures)
        # Only now: whoever had a partition before commits nothing any more, and what it has committed is there.
        stored = await self._store.load([work.partition for work in producers])
        ends = await self._offsets.at_target(list(producers), LATEST, failures)
        beginnings = {work: as_of_stored(wanted[work], work.copy, stored.get(work.partition)) for work in ends}
        starts = await self._offsets.starts(beginnings, stored, ends, failures)
        starts = {work: first_start(work, start, stored, self._settings) for work, start in starts.items()}
        copies: dict[PartitionWork, StoredCopy] = {}
        tasks, scans = [], {}
        for work in [each for each in ends if each not in failures]:
            before = stored.get(work.partition)
            copies[work] = begun_by(
                work, producers[work], starts.get(work), before, target_end=ends[work], worker=self._worker
            )
            if before is None or before.session.is_transactional or work in starts:
                continue
            scan = TargetScan(
                before.session.name,
                before.next_sequence,
                before.target_offset,
                with_records=wanted[work].with_records,
            )
            scans[work] = (scan, before.next_sequence)
            if ends[work] > before.target_offset:
                tasks.append(ScanTask(work, scan, ends[work]))
        failures.update(await scan_targets(self._target.cluster, tasks, self._settings))
        begun_copies = {}
        for work, copied in copies.items():
            if work not in failures:
                found, sequence = (scans[work][0].found, scans[work][1]) if work in scans else ([], 0)
                pairing = Pairing(found, sequence, copied.next_source_offset)
                begun_copies[work] = PartitionCopy(copied, pairing, self._worker)
        return begun_copies, failures

    async def _fence(
        self, wanted: Mapping[PartitionWork, PartitionStart], failures: Failures
    ) -> dict[PartitionWork, Producer]:
        works = list(wanted)
        found = await asyncio.gather(
            *(self._requests.init(transactional_id(self._alias, work.partition)) for work in works),
            return_exceptions=True,
        )
        producers = {}
        for work, outcome in zip(works, found, strict=True):
            if isinstance(outcome, OttlaError):
                failures[work] = str(outcome)
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                producers[work] = outcome
        return producers


def as_of_stored(beginning: PartitionStart, copy: PartitionCopy | None, stored: StoredCopy | None) -> PartitionStart:
    """Return what was found of a session as something that was found of the one that is stored.

    A session is stored with its first transaction only. What is found before that is true of the session which it
    would have replaced, unless another worker has replaced that one since.

    Where another session was to begin behind what is committed, the transaction that was to bring the position there
    has been aborted. What lies between is copied again, and what was found is found again.
    """
    if copy is None or stored is None or beginning.replaces != copy.session.name:
        return beginning
    if stored.session.name == copy.session.replaces:  # it was never stored
        beginning = replace(beginning, replaces=stored.session.name)
    is_about_stored = beginning.replaces == stored.session.name
    new_session_at = beginning.new_session_at
    if is_about_stored and new_session_at is not None and new_session_at > stored.next_source_offset:
        return replace(beginning, new_session_at=None)
    return beginning


def first_start(
    work: PartitionWork, start: int, stored: Mapping[SourcePartition, StoredCopy], settings: CopySettings
) -> int:
    """Return where to begin; once begun at the source's end, it is there though nothing could be stored yet."""
    if settings.start != "latest" or work.copy is None or work.partition in stored:
        return start
    return min(start, work.copy.session.source_start_offset)


def begun_by(
    work: PartitionWork,
    producer: Producer,
    start: int | None,
    before: StoredCopy | None,
    *,
    target_end: int,
    worker: UUID,
) -> StoredCopy:
    """Return the copy of a partition as its next owner begins. It is stored with the first transaction.

    Args:
        work: the partition.
        producer: that was given out for it.
        start: the source offset to begin at, where that is not the position.
        before: what is committed; None if nothing is.
        target_end: the end of the target's log.
        worker: this worker, in this life of its process.
    """
    assert before is not None or start is not None
    session = Session(
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        source_topic_id=work.partition.topic_id,
        source_start_offset=before.next_source_offset if start is None and before is not None else start or 0,
        target_topic_id=work.target_topic_id,
        target_start_offset=before.target_offset if start is None and before is not None else target_end,
        replaces=None if before is None else before.session.name,
        owner=worker,
        is_transactional=True,
    )
    return begun(session, before)
