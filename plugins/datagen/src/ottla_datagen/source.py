"""`DatagenSource`: makes test data.

Records are numbered from 0. The numbers are divided into lanes, as a road is: lane 3 of 16 has the numbers 3, 19,
35, …; each lane is a source partition, and its offset is the number of its last record. Tasks share the lanes, so the
same records come from where they stopped, also with another number of tasks.
"""

import datetime as dt
import heapq
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from ottla_datagen.config import DatagenConfig, DatagenTaskConfig
from ottla_datagen.draws import Draws
from ottla_datagen.generators import compile_field
from ottla_sdk import Problem, SourceConnector, SourceRecord, SourceTask

LANES = 16
"""Most tasks that can share the work. It must stay the same, or offsets would mean something else."""

_WAIT_MAX_S = 1.0
_BACKLOG_MAX_S = 1.0  # what was not made in time, because the task was paused, is not made up for
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)


class DatagenTask(SourceTask[DatagenTaskConfig]):
    """Makes the records of some lanes, by their numbers."""

    __module__ = "ottla_datagen"
    config_model: ClassVar[type[DatagenTaskConfig]] = DatagenTaskConfig

    def start(self) -> None:
        """Go behind the committed numbers."""
        config = self.config
        self._schema, self._make = compile_field(config.data_schema)
        self._draws = Draws(config.seed)
        lanes = range(config.task_index, LANES, config.task_count)
        self._partitions = {lane: {"lane": lane} for lane in lanes}
        committed = self.context.offsets.offsets(list(self._partitions.values()))
        self._next = [
            lane if offset is None else offset["number"] + LANES
            for lane, offset in zip(lanes, committed, strict=True)
        ]
        heapq.heapify(self._next)
        self._rate = config.rate_per_second * len(lanes) / LANES
        self._due_s = time.monotonic()

    def poll(self) -> Sequence[SourceRecord]:
        """Return the records that are due."""
        count = self._count_due(time.monotonic())
        records: list[SourceRecord] = []
        end = self.config.count
        while len(records) < count and (not end or self._next[0] < end):
            number = self._next[0]
            heapq.heapreplace(self._next, number + LANES)
            records.append(self._record(number))
        if self._rate:
            self._due_s += len(records) / self._rate
        if not records:
            finished = end and self._next[0] >= end
            self.context.wait(_WAIT_MAX_S if finished else min(self._due_s - time.monotonic(), _WAIT_MAX_S))
        return records

    def _count_due(self, now_s: float) -> int:
        if not self._rate:
            return self.config.batch_records_max
        self._due_s = max(self._due_s, now_s - _BACKLOG_MAX_S)
        if self._due_s > now_s:
            return 0
        return min(self.config.batch_records_max, int((now_s - self._due_s) * self._rate) + 1)

    def _record(self, number: int) -> SourceRecord:
        config = self.config
        self._draws.begin(number)
        value = self._make(self._draws, number)
        key_field = config.key_field
        return SourceRecord(
            topic=config.topic,
            key=value[key_field] if key_field else None,
            key_schema=self._schema.field_by_name[key_field].schema if key_field else None,
            value=value,
            value_schema=self._schema,
            timestamp_ms=_milliseconds(value[config.timestamp_field]) if config.timestamp_field else None,
            source_partition=self._partitions[number % LANES],
            source_offset={"number": number},
        )


def _milliseconds(moment: dt.datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // _MILLISECOND


class DatagenSource(SourceConnector[DatagenConfig]):
    """Makes test data: records of a schema, each a function of a seed and its number.

    The same settings give the same records, at any rate and with any number of tasks; a restarted connector goes on
    where it stopped.
    """

    __module__ = "ottla_datagen"
    config_model: ClassVar[type[DatagenConfig]] = DatagenConfig
    task_class: ClassVar[type[DatagenTask]] = DatagenTask

    def check(self) -> Iterable[Problem]:
        """Return what is wrong with the schema, if it is in a file."""
        if self.config.schema_file is not None:
            yield from self.config.schema_problems()

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return as many tasks as there may be, sixteen at most."""
        count = min(tasks_max, LANES)
        return [
            {**self.settings, "datagen.task.index": str(number), "datagen.task.count": str(count)}
            for number in range(count)
        ]

    def exactly_once_support(self) -> bool:
        """Return True: every record has its number as offset."""
        return True

    def check_offsets(
        self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> Iterable[Problem]:
        """Return which offsets are not numbers of records of their lane."""
        for partition, offset in offsets:
            lane = partition.get("lane")
            if not isinstance(lane, int) or not 0 <= lane < LANES:
                yield Problem("", f"partition {dict(partition)}: must have lane, a number from 0 to {LANES - 1}")
            elif offset is not None and not _is_of_lane(offset.get("number"), lane):
                yield Problem("", f"offset {dict(offset)}: must have number, one of {lane}, {lane + LANES}, …")


def _is_of_lane(number: object, lane: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0 and number % LANES == lane
