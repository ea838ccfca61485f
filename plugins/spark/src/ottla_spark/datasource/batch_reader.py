"""Reads what a topic has now, in a batch: `spark.read.format("ottla")`."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ottla_spark.datasource.cluster_offsets import ClusterOffsets
from ottla_spark.datasource.errors import OffsetsUnusable
from ottla_spark.datasource.offsets import TopicOffsets
from ottla_spark.datasource.options import ReadOptions
from ottla_spark.datasource.range_reading import ReadingRules, read_range
from ottla_spark.datasource.ranges import OffsetRange, cut, ranges_between
from ottla_spark.datasource.record_filters import first_time_ms, narrowed, wanted_partitions


def reading_rules(options: ReadOptions) -> ReadingRules:
    """Return what the tasks of a query have to know."""
    return ReadingRules(
        consumer_settings=options.consumer_settings,
        admin_settings=options.admin_settings,
        include_headers=options.include_headers,
        include_content=options.include_content,
        poll_timeout_ms=options.poll_timeout_ms,
        fail_on_data_loss=options.fail_on_data_loss,
    )


class OttlaBatchReader(DataSourceReader):
    """Plans ranges of offsets on the driver; `read` runs in tasks."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._rules = reading_rules(options)

    def partitions(self) -> Sequence[InputPartition]:
        """Return the ranges to read; the end is fixed here, whatever is written later.

        Raises:
            MissingTopic, OffsetsUnusable, ClusterUnreachable, ReadRefused, ReadFailed: see `ClusterOffsets`.
        """
        cluster = ClusterOffsets(self._options)
        try:
            chosen = cluster.required()
            start = cluster.at(self._options.starting, chosen.partitions, is_start=True)
            end = cluster.at(self._options.ending, chosen.partitions, is_start=False)
            wanted = wanted_partitions(start, self._options.comparisons)
            first_ms = first_time_ms(self._options.comparisons)
            # Asked for after the ends: a partition without such a record has its end, or a later one, here.
            first = {} if first_ms is None else cluster.first_from(first_ms, wanted)
        finally:
            cluster.close()
        for (topic, number), offset in sorted(start.items()):
            if offset > end.get((topic, number), offset):
                raise OffsetsUnusable(
                    f"partition {number} of topic {topic} would start at offset {offset} and end at "
                    f"{end[topic, number]}, before that"
                )
        starts, ends = narrowed({each: start[each] for each in wanted}, end, self._options.comparisons, first)
        ranges = cut(
            ranges_between(starts, TopicOffsets(ends, chosen.topic_ids)),
            partitions_min=self._options.partitions_min,
            records_per_partition_max=self._options.records_per_partition_max,
        )
        # Spark makes one task of an empty list, and hands it no value.
        return [InputPartition(each) for each in ranges] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range."""
        wanted: OffsetRange | None = partition.value
        return iter(()) if wanted is None else read_range(wanted, self._rules)
