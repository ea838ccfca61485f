"""Reads topics as a stream, batch after batch: `spark.readStream.format("ottla")`.

Spark keeps the offsets in the query's checkpoint. It asks here, in a process of its own beside the driver, how far
the next batch goes and which ranges that is; tasks read them. Rules are those of Spark's own KafkaMicroBatchStream:
partitions that appear start at their earliest offset, and what is gone is reported by `failOnDataLoss`. Unlike
Spark's own source, checkpoints also keep the ids of topics: the offsets of a topic that was deleted and created anew
say nothing about the new one, however many records that has.
"""

import logging
import time
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ottla_spark.datasource.batch_reader import reading_rules
from ottla_spark.datasource.cluster_offsets import ClusterOffsets
from ottla_spark.datasource.described_topics import replaced_topics
from ottla_spark.datasource.errors import DataLost
from ottla_spark.datasource.group_commits import GroupCommits
from ottla_spark.datasource.limits import BatchDelay, limited
from ottla_spark.datasource.offsets import OffsetDocument, Offsets, Partition, TopicOffsets, named
from ottla_spark.datasource.options import ReadOptions
from ottla_spark.datasource.positions import AtTimestamp, AtTimestamps, is_latest
from ottla_spark.datasource.range_reading import read_range
from ottla_spark.datasource.ranges import cut, ranges_between

log = logging.getLogger(__name__)


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches; `read` runs in tasks, on a copy that nothing was called on before."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._rules = reading_rules(options)
        self._cluster = ClusterOffsets(options)
        self._commits = GroupCommits(options.commit_group_id, self._cluster.group_client)
        self._delay = BatchDelay(
            offsets_min=options.offsets_per_trigger_min or 0, delay_max_ms=options.trigger_delay_max_ms
        )
        self._latest = TopicOffsets({})
        self._initial: Offsets | None = None
        self._held: dict[Partition, int] = {}
        self._target: TopicOffsets | None = None
        self._warned: set[str] = set()

    def initialOffset(self) -> OffsetDocument:  # noqa: N802 - Spark's name
        """Return where a new query starts, by `startingOffsets` and its kin."""
        chosen = self._cluster.required()
        start = self._cluster.at(self._options.starting, chosen.partitions, is_start=True)
        # Spark keeps the end of the first batch but not its start. What starts at the latest offset would start later
        # if the query came back from a crash in that batch, so the first batch ends there as well. Where timestamps
        # that match nothing mean the latest offset, nobody would know then which ones had matched: all end there.
        self._held = {each: start[each] for each in start if self._may_start_at_latest(each)}
        self._initial = start
        return TopicOffsets(start, chosen.topic_ids).document()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit of the options; the delay of `minOffsetsPerTrigger` is decided in `latestOffset`."""
        if self._options.offsets_per_trigger_max is not None:
            return ReadMaxRows(self._options.offsets_per_trigger_max)
        if self._options.offsets_per_trigger_min is not None:
            return ReadMinRows(self._options.offsets_per_trigger_min)
        return ReadAllAvailable()

    def latestOffset(self, start: OffsetDocument, limit: ReadLimit) -> OffsetDocument:  # noqa: N802 - Spark's name
        """Return where the next batch ends; `start` if there is nothing to read yet.

        Raises:
            DataLost: a topic is gone, or was created anew.
            ClusterUnreachable, ReadRefused, ReadFailed: see `ClusterOffsets`.
        """
        known = TopicOffsets.of(start)
        self._initial = None
        self._commits.commit(known.offsets)  # what is before it has been processed
        self._latest = self._known_latest(known) if self._target is None else self._known_target(self._target, known)
        if self._target is not None and known.offsets == self._latest.offsets:
            self._commits.finish()  # the query ends, and Spark may end this process before `stop`
        first = self._still_valid(known, self._latest).offsets
        end = dict(self._latest.offsets)
        if not isinstance(limit, ReadAllAvailable):
            if self._waits(first, end):
                return start
            if isinstance(limit, ReadMaxRows):
                end = limited(self._with_new(first, end), end, limit.max_rows)
        held, self._held = self._held, {}
        end |= {each: offset for each, offset in held.items() if each in end}
        # A broker that tells no ids is no reason to forget them.
        return TopicOffsets(end, {**known.topic_ids, **self._latest.topic_ids}).document()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix where the query ends."""
        chosen = self._cluster.chosen()
        self._target = TopicOffsets(self._cluster.latest(chosen.partitions), chosen.topic_ids)

    def reportLatestOffset(self) -> OffsetDocument | None:  # noqa: N802 - Spark's name
        """Return the ends of partitions as they were last seen, for the query's progress."""
        return self._latest.document() if self._latest.offsets else None

    def partitions(self, start: OffsetDocument, end: OffsetDocument) -> Sequence[InputPartition]:
        """Return the ranges of a batch.

        Raises:
            DataLost: some of its records are gone, and that shall fail.
        """
        planned = TopicOffsets.of(end)
        replaced = self._replaced_since(planned)
        last = planned.without(replaced)
        first = self._still_valid(TopicOffsets.of(start).without(replaced), last).offsets
        complete = self._with_new(first, last.offsets)
        self._check_loss(first, complete, last.offsets)
        ranges = cut(
            ranges_between(complete, last),
            partitions_min=self._options.partitions_min,
            records_per_partition_max=self._options.records_per_partition_max,
        )
        return [InputPartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range."""
        return read_range(partition.value, self._rules)

    def commit(self, end: OffsetDocument) -> None:
        """Commit to `commitGroupId` what has been processed."""
        self._commits.commit(TopicOffsets.of(end).offsets)

    def stop(self) -> None:
        """Give up the connections."""
        self._commits.finish()
        self._cluster.close()

    def _may_start_at_latest(self, partition: Partition) -> bool:
        by_timestamp = isinstance(self._options.starting, AtTimestamp | AtTimestamps)
        unmatched = by_timestamp and self._options.unmatched_start == "latest"
        return unmatched or is_latest(self._options.starting, partition)

    def _known_latest(self, known: TopicOffsets) -> TopicOffsets:
        # The ids are asked for before the offsets: if a topic is replaced in between, `partitions` sees it.
        chosen = self._cluster.chosen(known.offsets, known.topic_ids)
        for name in chosen.missing:
            self._lose(f"{name} does not exist")
        first = known.without(replaced_topics(known.topic_ids, chosen.topic_ids))
        latest = self._cluster.latest_not_before(first.offsets, chosen.partitions)
        return TopicOffsets(latest, chosen.topic_ids)

    def _known_target(self, target: TopicOffsets, known: TopicOffsets) -> TopicOffsets:
        """Return the target; partitions whose leader lagged when it was fixed are asked for again."""
        first = known.without(replaced_topics(known.topic_ids, target.topic_ids)).offsets
        behind = frozenset(each for each, offset in target.offsets.items() if offset < first.get(each, 0))
        latest = {**target.offsets, **self._cluster.latest_not_before(first, behind)}
        self._target = TopicOffsets(latest, target.topic_ids)
        return self._target

    def _still_valid(self, known: TopicOffsets, found: TopicOffsets) -> TopicOffsets:
        """Return what is known without topics that were replaced, which begin anew if that is no failure."""
        replaced = replaced_topics(known.topic_ids, found.topic_ids)
        for each in sorted(replaced):
            self._lose(f"topic {each} was deleted and created again since it was read")
        return known.without(replaced)

    def _replaced_since(self, planned: TopicOffsets) -> frozenset[str]:
        """Return topics that were replaced since a batch's end was planned; a crash may lie in between."""
        replaced = self._cluster.replaced(planned.topic_ids)
        for each in sorted(replaced):
            self._lose(f"topic {each} was deleted and created again before a batch of its records was read")
        return replaced

    def _waits(self, start: Offsets, latest: Offsets) -> bool:
        if self._options.offsets_per_trigger_min is None or self._target is not None:
            return False
        complete = self._with_new(start, latest)
        return self._delay.waits(complete, latest, now_ms=int(time.monotonic() * 1000))

    def _with_new(self, start: Offsets, end: Offsets) -> dict[Partition, int]:
        """Return the start with the earliest offsets of partitions that have appeared."""
        return {**start, **self._cluster.earliest(end.keys() - start.keys())}

    def _check_loss(self, start: Offsets, complete: Offsets, end: Offsets) -> None:
        # If the first batch is repeated after a crash, partitions may have appeared since, which were not in it.
        if gone := start.keys() - end.keys() if start != self._initial else ():
            self._lose(f"{named(gone)} no longer exist")
        if unknown := end.keys() - complete.keys():
            self._lose(f"{named(unknown)} no longer exist")
        for each in sorted(complete.keys() - start.keys()):
            if complete[each] > 0:
                self._lose(f"{named([each])} has appeared, but starts at offset {complete[each]} instead of 0")
        for each in sorted(start.keys() & end.keys()):
            if end[each] < start[each] and each not in self._resumed_late(start):
                self._lose(
                    f"{named([each])} was read up to offset {start[each]}, but ends at {end[each]}; "
                    "the topic was deleted and created again, or its leader has lost records"
                )

    def _resumed_late(self, start: Offsets) -> set[Partition]:
        """Return partitions whose first batch is repeated after a crash, and was empty (see `initialOffset`)."""
        return {each for each, offset in self._held.items() if start.get(each) == offset}

    def _lose(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLost(f"records may be lost: {what}; set failOnDataLoss to false to go on without them")
        if what not in self._warned:
            self._warned.add(what)
            log.warning("records may be lost: %s; going on, as failOnDataLoss is false", what)
