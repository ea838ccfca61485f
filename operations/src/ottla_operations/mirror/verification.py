"""Comparing the topics of two clusters, partition by partition, while the source may be written to.

The target's ends are taken before the source's, so whatever the target has up to its end must be at the source before
the source's: nothing more may be there. Beyond its end the target is read for as long as the source has more. What of
it the target does not have, after the time that was given to it, is not copied yet: the partition is behind.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla_core.client.cluster_metadata import TopicMetadata
from ottla_core.errors import OttlaError
from ottla_core.topic_partition import TopicPartition
from ottla_operations.mirror.batch_comparison import BatchComparison
from ottla_operations.mirror.cluster_reader import EARLIEST, LATEST, ClusterReader, Piece
from ottla_operations.mirror.differences import Difference, Kind, PartitionOutcome
from ottla_operations.mirror.last_values import KeyShare, LastValues, first_difference, share_count
from ottla_operations.mirror.record_comparison import RecordComparison
from ottla_operations.mirror.topic_pairs import Naming
from ottla_operations.quantities import counted

PARTITIONS_AT_ONCE: Final = 6
KEYS_AT_ONCE_MAX: Final = 500_000
PAUSE_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What has to be equal.

    Attributes:
        is_linked: whether the target has the source's offsets and batches, byte for byte.
        overlap_only: whether the target may lack the source's oldest records, since its own retention removed them.
        wait_s: how long a target that has not copied everything is waited for, in seconds.
    """

    is_linked: bool = False
    overlap_only: bool = False
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Where a partition begins and ends on both sides, in offsets."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A partition of the source and the one of the target that is to be its copy."""

    source: TopicPartition
    target: TopicPartition
    is_compacted: bool


Report = Callable[[int, int], None]
"""Told how many more offsets of the source have been gone through, and how many more bytes were read."""


class Verification:
    """Compares topics.

    Args:
        source, target: both clusters.
        rules: what has to be equal.
        report: is told of the progress.
    """

    def __init__(self, source: ClusterReader, target: ClusterReader, rules: Rules, report: Report) -> None:
        self._source = source
        self._target = target
        self._rules = rules
        self._report = report
        self._ranges: dict[Pair, Range] = {}

    @property
    def offsets_total(self) -> int:
        """How many offsets of the source are to be gone through, when `prepare` has returned."""
        return sum(each.source_end - each.source_start for each in self._ranges.values())

    async def prepare(self, topics: Mapping[str, TopicMetadata], naming: Naming) -> list[PartitionOutcome]:
        """Find out what is to be compared, and return the partitions that the target does not have.

        Raises:
            Unreadable, Unreachable, AuthenticationFailed, UnsupportedByBroker: a cluster does not tell.
        """
        targets = await self._targets([naming.target_name(name) for name in topics], topics, naming)
        compacted = await self._source.compacted(topics)
        compacted_targets = await self._target.compacted(targets)
        missing, pairs = [], []
        for name, topic in sorted(topics.items()):
            target_name = naming.target_name(name)
            there = targets.get(target_name)
            for number in sorted(topic.partitions):
                if there is None or number not in there.partitions:
                    kind = Kind.TOPIC if there is None else Kind.PARTITION
                    difference = Difference(kind=kind, detail=f"{target_name} at the target")
                    missing.append(
                        PartitionOutcome(
                            topic=name, target_topic=target_name, partition=number, difference=difference
                        )
                    )
                    continue
                is_compacted = name in compacted or target_name in compacted_targets
                pair = Pair(
                    source=TopicPartition(name, number),
                    target=TopicPartition(target_name, number),
                    is_compacted=is_compacted,
                )
                pairs.append(pair)
        self._ranges = await self._ranges_of(pairs)
        return missing

    async def _targets(
        self, names: Sequence[str], topics: Mapping[str, TopicMetadata], naming: Naming
    ) -> dict[str, TopicMetadata]:
        """Return the topics that the target has; those that it has yet to get are waited for."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._rules.wait_s
        while True:
            found = await self._target.topics(names)
            is_complete = all(
                (there := found.get(naming.target_name(name))) is not None
                and there.partitions.keys() >= topic.partitions.keys()
                for name, topic in topics.items()
            )
            if is_complete or loop.time() >= deadline_s:
                return found
            await asyncio.sleep(PAUSE_S)

    async def _ranges_of(self, pairs: Sequence[Pair]) -> dict[Pair, Range]:
        is_committed = {pair: self._committed_only(pair) for pair in pairs}
        targets = await self._both_ends(self._target, {pair.target: is_committed[pair] for pair in pairs})
        sources = await self._both_ends(self._source, {pair.source: is_committed[pair] for pair in pairs})
        return {
            pair: Range(
                source_start=sources[pair.source][0],
                source_end=sources[pair.source][1],
                target_start=targets[pair.target][0],
                target_end=targets[pair.target][1],
            )
            for pair in pairs
        }

    @staticmethod
    async def _both_ends(
        reader: ClusterReader, partitions: Mapping[TopicPartition, bool]
    ) -> dict[TopicPartition, tuple[int, int]]:
        ends: dict[TopicPartition, int] = {}
        for committed_only in (False, True):
            some = [name for name, is_committed in partitions.items() if is_committed is committed_only]
            ends |= await reader.offsets(some, LATEST, committed_only=committed_only)
        starts = await reader.offsets(partitions, EARLIEST, committed_only=False)
        return {name: (starts[name], max(starts[name], ends[name])) for name in partitions}

    def _committed_only(self, pair: Pair) -> bool:
        return pair.is_compacted or not self._rules.is_linked

    async def run(self, on_outcome: Callable[[PartitionOutcome], None]) -> None:
        """Compare everything, several partitions at a time, and tell of each as it is done."""
        pairs = iter(self._ranges.items())

        async def work() -> None:
            for pair, offsets in pairs:
                on_outcome(await self._outcome(pair, offsets))

        async with asyncio.TaskGroup() as group:
            for _ in range(PARTITIONS_AT_ONCE):
                group.create_task(work())

    async def _outcome(self, pair: Pair, offsets: Range) -> PartitionOutcome:
        outcome = PartitionOutcome(
            topic=pair.source.topic,
            target_topic=pair.target.topic,
            partition=pair.source.partition,
            source_start=offsets.source_start,
            source_end=offsets.source_end,
        )
        progress = _Progress(self._report, offsets)
        try:
            if pair.is_compacted:
                await self._compare_last_values(pair, offsets, outcome, progress)
            else:
                await self._compare_in_order(pair, offsets, outcome, progress)
        except OttlaError as error:
            outcome.problem = str(error)
        progress.finish()
        return outcome

    async def _compare_in_order(
        self, pair: Pair, offsets: Range, outcome: PartitionOutcome, progress: "_Progress"
    ) -> None:
        begin = _beginning(offsets, self._rules, outcome)
        if begin is None:
            return
        comparison: BatchComparison | RecordComparison = (
            BatchComparison()
            if self._rules.is_linked
            else RecordComparison(
                skips_at_source=self._rules.overlap_only and offsets.target_start > 0,
                skips_at_target=offsets.source_start > 0,
            )
        )
        committed_only = self._committed_only(pair)
        source = _Reading(self._source, pair.source, begin[0], committed_only, progress.source)
        target = _Reading(self._target, pair.target, begin[1], committed_only, progress.target)
        outcome.behind_records = await self._compare(comparison, source, target, offsets)
        outcome.records, outcome.batches = comparison.records, comparison.batches
        outcome.difference = comparison.difference
        if isinstance(comparison, RecordComparison):
            _note(comparison, outcome)
        if outcome.difference is not None:
            outcome.behind_records = 0
            return
        extra = comparison.target_left
        if not outcome.behind_records and extra is not None and extra < offsets.target_end:
            detail = f"the source ends at offset {offsets.source_end}"
            outcome.difference = Difference(kind=Kind.EXTRA, target_offset=extra, detail=detail)

    async def _compare(
        self,
        comparison: BatchComparison | RecordComparison,
        source: "_Reading",
        target: "_Reading",
        offsets: Range,
    ) -> int:
        """Read both sides to the source's end; return how many offsets the target lacks there.

        At the end of the source everything that the target had at the beginning has been offered, too.
        """
        deadline: float | None = None
        loop = asyncio.get_running_loop()
        while comparison.difference is None:
            source_done = comparison.wants_source and source.position >= offsets.source_end
            if source_done and (not comparison.wants_target or target.position >= offsets.target_end):
                return 0
            of_source, of_target = await asyncio.gather(
                source.next_until(offsets.source_end) if comparison.wants_source else _nothing(),
                target.next() if comparison.wants_target else _nothing(),
            )
            if of_source is not None:
                comparison.add_source(of_source.batches)
            if of_target is not None:
                comparison.add_target(of_target.batches)
            if comparison.wants_target and not comparison.wants_source and target.is_at_end:
                deadline = deadline or loop.time() + self._rules.wait_s
                if loop.time() >= deadline:
                    left = comparison.source_left
                    return offsets.source_end - (source.position if left is None else left)
            else:
                deadline = None
        return 0

    async def _compare_last_values(
        self, pair: Pair, offsets: Range, outcome: PartitionOutcome, progress: "_Progress"
    ) -> None:
        outcome.notes.append("compacted: the last records of keys were compared")
        count = share_count(offsets.source_end - offsets.source_start, KEYS_AT_ONCE_MAX)
        for index in range(count):
            values = LastValues(KeyShare(index, count), with_offsets=self._rules.is_linked)
            source = _Reading(self._source, pair.source, offsets.source_start, True, progress.share(count))
            target = _Reading(self._target, pair.target, offsets.target_start, True, progress.target)
            while (piece := await source.next_until(offsets.source_end)) is not None:
                values.add_source(piece.batches)
            unequal = await self._unequal(values, source, target, offsets)
            outcome.records += values.keys
            if values.keyless and index == 0:  # each reading meets them all
                outcome.notes.append(f"{counted(values.keyless, 'record')} of both sides without a key: not compared")
            if unequal is not None:
                outcome.difference = outcome.difference or unequal
                return

    async def _unequal(
        self, values: LastValues, source: "_Reading", target: "_Reading", offsets: Range
    ) -> Difference | None:
        """Read the target to its end, again and again while there is time and keys differ."""
        loop = asyncio.get_running_loop()
        deadline: float | None = None
        while True:
            while not target.is_at_end or target.position < offsets.target_end:
                values.add_target((await target.next()).batches)
            unequal = values.unequal()
            if unequal:
                end = (await self._source.offsets([source.partition], LATEST, committed_only=True))[source.partition]
                newer = _Reading(self._source, source.partition, offsets.source_end, True, lambda *_: None)
                while unequal and (piece := await newer.next_until(end)) is not None:
                    values.pardon(piece.batches, unequal)
            deadline = deadline or loop.time() + self._rules.wait_s
            if not unequal or loop.time() >= deadline:
                return first_difference(unequal)
            await asyncio.sleep(PAUSE_S)
            target.is_at_end = False


class _Reading:
    """Where one side is read."""

    def __init__(
        self, reader: ClusterReader, partition: TopicPartition, position: int, committed_only: bool, report: Report
    ) -> None:
        self.partition = partition
        self.position = position
        self.is_at_end = False
        self._reader = reader
        self._committed_only = committed_only
        self._report = report

    async def next(self) -> Piece:
        """Return the next piece; an empty one at the end."""
        piece = await self._reader.piece(self.partition, self.position, committed_only=self._committed_only)
        self._report(piece.next_offset - self.position, piece.size_bytes)
        self.position = piece.next_offset
        self.is_at_end = self.position >= piece.end_offset
        return piece

    async def next_until(self, end: int) -> Piece | None:
        """Return the next piece, without batches that begin at `end` or behind it; None if all has been read."""
        if self.position >= end:
            return None
        piece = await self.next()
        within = [each for each in piece.batches if each.header.base_offset < end]
        return Piece(
            batches=within, next_offset=piece.next_offset, end_offset=piece.end_offset, size_bytes=piece.size_bytes
        )


class _Progress:
    """What of a partition's share of the progress has been told."""

    def __init__(self, report: Report, offsets: Range) -> None:
        self._report = report
        self._left = float(offsets.source_end - offsets.source_start)

    def source(self, offsets: int, size_bytes: int) -> None:
        self._advance(offsets, size_bytes)

    def target(self, _offsets: int, size_bytes: int) -> None:
        self._report(0, size_bytes)

    def share(self, count: int) -> Report:
        return lambda offsets, size_bytes: self._advance(offsets / count, size_bytes)

    def finish(self) -> None:
        """Tell the rest, which was not gone through."""
        self._advance(self._left, 0)

    def _advance(self, offsets: float, size_bytes: int) -> None:
        step = min(offsets, self._left)
        self._left -= step
        self._report(int(step), size_bytes)


def _beginning(offsets: Range, rules: Rules, outcome: PartitionOutcome) -> tuple[int, int] | None:
    """Return from which offsets on both sides are read; None if that is a difference already."""
    if not rules.is_linked:
        return offsets.source_start, offsets.target_start
    start = max(offsets.source_start, offsets.target_start)
    if offsets.target_start > offsets.source_start:
        missing = f"the source begins at {offsets.source_start}, the target at {offsets.target_start}"
        if not rules.overlap_only and offsets.target_end > 0:
            outcome.difference = Difference(
                kind=Kind.START,
                source_offset=offsets.source_start,
                target_offset=offsets.target_start,
                detail=f"{missing}; --overlap compares what both have",
            )
            return None
        outcome.notes.append(missing)
    elif offsets.source_start > offsets.target_start and offsets.target_end > 0:
        outcome.notes.append(f"the source begins at {offsets.source_start}, the target at {offsets.target_start}")
    if offsets.target_end <= start:
        return offsets.source_start, offsets.target_end
    outcome.source_start = start
    return start, start


def _note(comparison: RecordComparison, outcome: PartitionOutcome) -> None:
    if comparison.skipped:
        side = "target" if outcome.source_start > 0 else "source"
        outcome.notes.append(f"{comparison.skipped} records at the {side}'s start are older than what the other has")
    if comparison.target_has_own_timestamps:
        outcome.notes.append("timestamps are the target's own and were not compared")


async def _nothing() -> None:
    return None
