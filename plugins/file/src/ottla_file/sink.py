"""`FileSink`: writes topics' records into files.

A file holds a run of records of one partition, and its name says from which offset to which. Offsets are committed
when their file is finished, so a task that takes over, after a crash too, begins at the end of a finished file; where
the crash came between finishing a file and committing, the names tell what is there already. So every record is in
exactly one finished file.

Offsets say nothing of a topic that was created anew: it begins with 0 again. Where the cluster gives topics ids, the
sink keeps of which topic the finished files are, and fails if that is another one now, or begins anew if the names
hold the id.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ottla_file.file_names import FileNames, hour_of, is_before_year_1
from ottla_file.partition_claims import Ownership, keep_topic, owned_partitions, topic_of_files
from ottla_file.record_formats import RecordFormat, new_format
from ottla_file.sink_config import FileSinkConfig
from ottla_file.unfinished_file import WRITE_BYTES, UnfinishedFile, remove_unfinished
from ottla_sdk import (
    DataError,
    FatalError,
    Problem,
    RetriableError,
    SinkConnector,
    SinkRecord,
    SinkTask,
    TopicIdentity,
    TopicPartition,
    is_another,
)
from ottla_sdk.file_policy import permitted_path


@dataclass(slots=True, kw_only=True)
class _Run:
    """The records that go into one file.

    Attributes:
        file: the file.
        format: how they are written.
        start_offset: the first one's offset.
        end_offset: the last one's.
        hour: hours between the epoch and the first one.
        period: the date parts of the file's name.
        due_s: when the file is finished for its age, in CLOCK_MONOTONIC's seconds.
    """

    file: UnfinishedFile
    format: RecordFormat
    start_offset: int
    end_offset: int
    hour: int
    period: tuple[str, ...]
    due_s: float


class FileSinkTask(SinkTask[FileSinkConfig]):
    """Writes the records of its partitions."""

    __module__ = "ottla_file"
    config_model: ClassVar[type[FileSinkConfig]] = FileSinkConfig

    def start(self) -> None:
        """Get ready; files are opened when records come."""
        self._names = self.config.names
        self._runs: dict[TopicPartition, _Run] = {}
        self._next_offsets: dict[TopicPartition, int] = {}
        self._ownerships: dict[TopicPartition, Ownership] = {}
        self._topics = TopicIdentity(self.context)
        self._topic_ids: dict[TopicPartition, str | None] = {}
        self._unconfirmed: set[str] = set()  # topics of which records have come since the last commit

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Find out which records are in finished files already.

        Raises:
            RetriableError: that cannot be found out now.
            FatalError: the finished files are of another topic of that name.
        """
        directory, connector = self.config.directory, self.context.connector
        for partition in partitions:
            topic_id = self._topics.ask(partition.topic)
            try:
                self._ownerships[partition] = Ownership(directory, connector, partition)
                remove_unfinished(directory, connector, partition)
                self._look_for_finished(partition, topic_id)
            except OSError as error:
                raise RetriableError(f"cannot look for finished files: {error}") from error

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Write records; those that are written already are left out.

        Raises:
            RetriableError: not all could be written.
            FatalError: a topic was created anew, and its files would be mixed up with those of the former one.
        """
        try:
            begun_anew = self._check_topics(records)
            for record in records:
                if record.origin not in begun_anew:  # otherwise it comes again, after those before it
                    self._take(record)
            for run in self._runs.values():
                run.file.write()
            self._finish_old()
        except OSError as error:
            raise RetriableError(f"cannot write to {self.config.directory}: {error}") from error

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return how far records are in finished files, or were left out."""
        try:
            self._confirm_topics()
            self._finish_old()
        except OSError as error:
            raise RetriableError(f"cannot write to {self.config.directory}: {error}") from error
        return {partition: min(offset, self._safe_offset(partition, offset)) for partition, offset in offsets.items()}

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Drop the unfinished files: their records are not committed, and come again."""
        for partition in partitions:
            self._next_offsets.pop(partition, None)
            self._ownerships.pop(partition, None)
            self._topic_ids.pop(partition, None)
            if run := self._runs.pop(partition, None):
                run.file.discard()

    def stop(self) -> None:
        """Drop all unfinished files."""
        if hasattr(self, "_runs"):
            self.close(list(self._runs))

    def _safe_offset(self, partition: TopicPartition, offset: int) -> int:
        run = self._runs.get(partition)
        return run.start_offset if run is not None else self._next_offsets.get(partition, offset)

    # Topics that are created anew.

    def _look_for_finished(self, partition: TopicPartition, topic_id: str | None) -> None:
        """Go by the finished files, if they are of the topic that bears the name now."""
        directory, connector, names = self.config.directory, self.context.connector, self._names
        if names.has_topic_id and topic_id is None:
            raise FatalError("file.name has ${topic_id}, but the cluster gives topics no ids, or does not tell")
        written = finished_up_to(directory, names, partition, topic_id)
        if topic_id is not None and not names.has_topic_id:
            former = topic_of_files(directory, connector, partition)
            if written and is_another(topic_id, former):
                raise FatalError(
                    f"the topic {partition.topic} was created anew: its id is {topic_id}, and the files of its "
                    f"partition {partition.partition} below {directory} hold records of the one with the id "
                    f"{former}, up to offset {written - 1}. Move or remove those files, or put ${{topic_id}} into "
                    "file.name"
                )
            if topic_id != former:
                keep_topic(directory, connector, partition, topic_id, fsync=self.config.fsync)
        self._topic_ids[partition] = topic_id
        self._next_offsets[partition] = written

    def _check_topics(self, records: Sequence[SinkRecord]) -> set[TopicPartition]:
        """Look whether topics are what they were; return the partitions that are begun anew.

        They are asked for at once where records would be left out, or begin a file: a consumer that reads on in the
        new topic behind where it was in the former one gives no other sign.
        """
        origins: dict[TopicPartition, int] = {}
        for record in records:
            origins.setdefault(record.origin, record.offset)
        left_out = {origin.topic for origin, offset in origins.items() if offset < self._next_offsets[origin]}
        beginning = {origin.topic for origin in origins if origin not in self._runs}
        begun_anew: set[TopicPartition] = set()
        for topic in sorted({origin.topic for origin in origins}):
            self._unconfirmed.add(topic)
            if topic in left_out:
                found = self._topics.ask(topic)
            elif topic in beginning:
                found = self._topics.ask_if_possible(topic, age_max_s=0)
            else:
                found = self._topics.ask_if_possible(topic)
            begun_anew |= self._compare(topic, found)
        return begun_anew

    def _confirm_topics(self) -> None:
        """Look once more: a broker that had not heard yet of a change may have been asked before."""
        for topic in sorted(self._unconfirmed):
            try:
                found = self._topics.ask(topic)
            except RetriableError as error:
                self.context.log.warning("%s", error)
                continue
            self._unconfirmed.discard(topic)
            self._compare(topic, found)

    def _compare(self, topic: str, topic_id: str | None) -> set[TopicPartition]:
        """Begin the partitions of a topic anew if it is another one now; return them."""
        changed = {
            partition
            for partition, known in self._topic_ids.items()
            if partition.topic == topic and is_another(topic_id, known)
        }
        for partition in sorted(changed):
            self.context.log.warning("the topic %s was created anew, with the id %s", topic, topic_id)
            if partition in self._runs:
                self._finish(partition)
            self._look_for_finished(partition, topic_id)
            self.context.seek({partition: self._next_offsets[partition]})
        return changed

    # Files.

    def _take(self, record: SinkRecord) -> None:
        partition = record.origin
        assert partition in self._next_offsets, f"a record of {partition}, which was not opened"
        if record.offset < self._next_offsets[partition]:
            return
        if record.value is not None or self.config.null_values == "write":
            try:
                self._append(partition, record)
            except DataError as error:
                self.context.report(record, error)
        elif self.config.null_values == "report":
            self.context.report(record, DataError("there is no value to write (see file.null.values)"))
        self._next_offsets[partition] = record.offset + 1  # before anything is written: that may fail
        if run := self._runs.get(partition):
            if run.file.rows >= self.config.roll_rows or run.file.size >= self.config.roll_bytes:
                self._finish(partition)
            else:
                run.file.write(WRITE_BYTES)

    def _append(self, partition: TopicPartition, record: SinkRecord) -> None:
        hour = hour_of(record.timestamp_ms if record.timestamp_ms is not None else time.time_ns() // 1_000_000)
        if self._names.has_date and is_before_year_1(hour):
            raise DataError(
                f"the timestamp {record.timestamp_ms} is before the year 1, so file.name has no date for it"
            )
        run = self._runs.get(partition)
        if run and (run.file.is_complete or not (run.format.fits(record) and self._is_same_period(run, hour))):
            self._finish(partition)
            run = None
        made = run or self._new_run(partition, record, hour)
        header = b"" if run else made.format.header(record)
        made.file.append(header + made.format.encode(record))
        made.end_offset = record.offset
        self._runs[partition] = made

    def _new_run(self, partition: TopicPartition, record: SinkRecord, hour: int) -> _Run:
        config = self.config
        return _Run(
            file=UnfinishedFile(
                config.directory,
                self.context.connector,
                partition,
                self._ownerships[partition],
                compression=config.compression,
            ),
            format=new_format(config),
            start_offset=record.offset,
            end_offset=record.offset,
            hour=hour,
            period=self._names.period(hour),
            due_s=time.monotonic() + config.roll_ms / 1000,
        )

    def _is_same_period(self, run: _Run, hour: int) -> bool:
        return not self._names.has_date or hour == run.hour or self._names.period(hour) == run.period

    def _finish_old(self) -> None:
        now_s = time.monotonic()
        for partition in [partition for partition, run in self._runs.items() if run.due_s <= now_s]:
            self._finish(partition)

    def _finish(self, partition: TopicPartition) -> None:
        run = self._runs[partition]
        self.context.settle_reports()  # records behind which the file goes do not come again
        path = self._names.path(
            partition,
            start_offset=run.start_offset,
            end_offset=run.end_offset,
            hour=run.hour,
            topic_id=self._topic_ids[partition],
        )
        run.file.finish(path, fsync=self.config.fsync)
        del self._runs[partition]
        self.context.metrics.add("files")
        self.context.metrics.add("rows", run.file.rows)
        self.context.request_commit()
        self.context.log.info("finished %s with %d records", path, run.file.rows)


class FileSink(SinkConnector[FileSinkConfig]):
    """Writes topics' records into files: JSON lines, CSV, lines of text, or bytes, compressed if wanted.

    Files are finished by number of records, size or age. A file appears under its name only when it is finished, and
    every record is in exactly one finished file, also after crashes: the names hold the offsets.
    """

    __module__ = "ottla_file"
    config_model: ClassVar[type[FileSinkConfig]] = FileSinkConfig
    task_class: ClassVar[type[FileSinkTask]] = FileSinkTask

    def check(self) -> Iterable[Problem]:
        """Return whether the directory can be written to."""
        directory = self.config.directory
        permitted_path(directory)
        if not directory.is_dir():
            yield Problem("file.directory", f"there is no directory {directory}")
        elif not os.access(directory, os.W_OK | os.X_OK):
            yield Problem("file.directory", f"{directory} cannot be written to")

    def check_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> Iterable[Problem]:
        """Return which partitions have finished files with records behind the offset that is wanted."""
        for partition, offset in offsets.items():
            written = finished_up_to(self.config.directory, self.config.names, partition)
            if written > (offset or 0):
                yield Problem(
                    "",
                    f"{partition.topic}-{partition.partition}: the records before offset {written} are in files "
                    f"below {self.config.directory}; remove or move those that shall be written again first",
                )

    def kept_offsets(self) -> Mapping[TopicPartition, int]:
        """Return how far each partition is in finished files, which say so by their names."""
        directory, names = self.config.directory, self.config.names
        owned = owned_partitions(directory, self.settings.get("name", ""))
        ends = {partition: finished_up_to(directory, names, partition) for partition in owned}
        return {partition: end for partition, end in ends.items() if end}


def finished_up_to(directory: Path, names: FileNames, partition: TopicPartition, topic_id: str | None = None) -> int:
    """Return the offset behind the last record of a partition that is in a finished file; 0 if there is none.

    Names that hold the topic's id count only if it is `topic_id`, if that is not None.
    """
    ends = (int(end) for end in _finished_ends(directory, names.patterns(partition, topic_id)))
    return max(ends, default=-1) + 1


def _finished_ends(directory: Path, patterns: Sequence[re.Pattern[str]]) -> Iterator[str]:
    pattern, *deeper = patterns
    try:
        with os.scandir(directory) as entries:
            matched = [(entry.path, found) for entry in entries if (found := pattern.fullmatch(entry.name))]
    except (FileNotFoundError, NotADirectoryError):
        return
    for path, found in matched:
        if deeper:
            yield from _finished_ends(Path(path), deeper)
        else:
            yield found["end"]
