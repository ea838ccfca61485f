"""A task of the SQL sink: each `put` is one transaction."""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from ottla_sdk import (
    ConnectError,
    RetriableError,
    SinkRecord,
    SinkTask,
    TopicIdentity,
    TopicPartition,
    is_another,
)
from ottla_sql.connection import described, is_transient, open_engine, translated
from ottla_sql.sink.config import SqlSinkConfig
from ottla_sql.sink.stored_offsets import OffsetMoved, StoredOffset, StoredOffsets
from ottla_sql.sink.writer import Progress, Writer


class SqlSinkTask(SinkTask[SqlSinkConfig]):
    """Writes records into tables."""

    config_model = SqlSinkConfig

    def start(self) -> None:
        """Get ready; the connection is made when it is needed."""
        self._engine: Engine | None = open_engine(self.config)
        self._writer = Writer(self._engine, self.config, self.context.report)
        self._failures = 0
        self._stored: StoredOffsets | None = None
        if self.config.offsets_table:
            self._stored = StoredOffsets(self._engine, self.config.offsets_table, self.context.connector)
        self._stored_offsets: dict[TopicPartition, StoredOffset | None] = {}
        self._topics = TopicIdentity(self.context)
        self._topic_ids: dict[str, str | None] = {}
        self._unconfirmed: set[str] = set()  # topics of which records were left out since the last commit
        self._unsure: set[TopicPartition] = set()

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Go on where the stored offsets say, if there are any."""
        if self._stored is None:
            return
        try:
            found = self._stored.read(partitions)
            # Those of a topic that are here already may show to be of a former one now.
            self._seek_behind_stored(self._ask_topics(partitions))
        except RetriableError as error:
            self.context.log.warning("cannot look for stored offsets now: %s", error)
            self._unsure.update(partitions)
            return
        except SQLAlchemyError as error:
            if not is_transient(error):
                raise translated(error, f"read the offsets in {self.config.offsets_table}") from error
            # `put` reads them before it writes anything.
            self.context.log.warning("cannot read the stored offsets now: %s", described(error))
            self._unsure.update(partitions)
            return
        self._stored_offsets.update({partition: found.get(partition) for partition in partitions})
        self._seek_behind_stored(found)

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Write records in one transaction."""
        if not records:
            return
        try:
            if self._stored is None:
                self._writer.write(records)
            else:
                self._write_once(self._stored, records)
        except OffsetMoved as error:
            self._unsure.update(record.origin for record in records)
            raise RetriableError(f"another task has written records of {error}; looking where to go on") from None
        except RetriableError as error:
            self._fail_for_now(error, records)
        except SQLAlchemyError as error:
            failure = translated(error, "write")
            if isinstance(failure, RetriableError):
                self._fail_for_now(failure, records)
            raise failure from error
        self._failures = 0
        self.context.metrics.add("records_written", len(records))

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return the offsets of what is written; with stored offsets those, for others to see how far it is."""
        if self._stored is None:
            return offsets
        self._confirm_topics()
        sure = (partition for partition in offsets if partition not in self._unsure)
        return {each: self._next_offset(each) for each in sure if self._stored_offsets.get(each) is not None}

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget where partitions are; others write them now."""
        for partition in partitions:
            self._stored_offsets.pop(partition, None)
            self._unsure.discard(partition)

    def stop(self) -> None:
        """Disconnect."""
        engine = getattr(self, "_engine", None)
        if engine is not None:
            engine.dispose()

    def _fail_for_now(self, error: RetriableError, records: Sequence[SinkRecord]) -> None:
        assert self._engine is not None, "not started"
        self._engine.dispose()
        if self._stored is not None:
            # It may be the commit that failed, and have taken effect all the same.
            self._unsure.update(record.origin for record in records)
        self._failures += 1
        if self._failures > self.config.retries_max:
            self._failures = 0
            raise ConnectError(f"{error}; giving up after {self.config.retries_max} more tries") from error
        self.context.retry_in(self.config.retry_backoff_ms)
        raise error

    def _write_once(self, stored: StoredOffsets, records: Sequence[SinkRecord]) -> None:
        """Write the records that are not written yet, and how far that is."""
        records = self._unwritten(stored, records)
        if not records:
            return
        behind: dict[TopicPartition, int] = {}
        for record in records:
            behind[record.origin] = record.offset + 1
        moved = {
            partition: StoredOffset(offset, self._topic_ids.get(partition.topic))
            for partition, offset in behind.items()
        }

        def move_offsets(connection: Connection) -> None:
            for partition in sorted(moved):  # in the same order in all tasks, against deadlocks
                stored.move(connection, partition, self._stored_offsets.get(partition), moved[partition])

        self._writer.write(records, Progress(move_offsets, self.context.settle_reports))
        self._stored_offsets.update(moved)

    def _unwritten(self, stored: StoredOffsets, records: Sequence[SinkRecord]) -> Sequence[SinkRecord]:
        """Return the records that are not written yet; those that come too early come again, after those before them.

        Raises:
            RetriableError: it cannot be found out now.
        """
        first = {record.origin: record.offset for record in reversed(records)}
        elsewhere = self._settle(stored, sorted(first.keys() & self._unsure))
        elsewhere |= self._check_topics(first)
        # Where a task looks for the first time, or begins anew, the consumer may be too far ahead.
        ahead = {
            partition: self._next_offset(partition)
            for partition in elsewhere
            if partition not in first or self._next_offset(partition) < first[partition]
        }
        if ahead:
            self.context.seek(ahead)
        return [
            record
            for record in records
            if record.origin not in ahead and record.offset >= self._next_offset(record.origin)
        ]

    def _settle(self, stored: StoredOffsets, unsure: Sequence[TopicPartition]) -> set[TopicPartition]:
        """Read the offsets of partitions; return those that have some for the first time, or begin anew."""
        if not unsure:
            return set()
        try:
            found = stored.read(unsure)
        except DBAPIError as error:
            raise translated(error, f"read the offsets in {self.config.offsets_table}") from error
        new = {partition for partition in unsure if partition not in self._stored_offsets and partition in found}
        new |= self._ask_topics(unsure)
        self._stored_offsets.update({partition: found.get(partition) for partition in unsure})
        self._unsure.difference_update(unsure)
        return new

    def _ask_topics(self, partitions: Sequence[TopicPartition]) -> set[TopicPartition]:
        """Take note of the ids of partitions' topics; return what begins anew of those that are known.

        Raises:
            RetriableError: no broker tells.
        """
        found = {topic: self._topics.ask(topic) for topic in sorted({each.topic for each in partitions})}
        return {each for topic, topic_id in found.items() for each in self._compare(topic, topic_id)}

    def _seek_behind_stored(self, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            self.context.seek({partition: self._next_offset(partition) for partition in partitions})

    def _next_offset(self, partition: TopicPartition) -> int:
        """Return the offset of the first record that is not written; 0 for a topic that was created anew."""
        stored = self._stored_offsets.get(partition)
        if stored is None or is_another(self._topic_ids.get(partition.topic), stored.topic_id):
            return 0
        return stored.next_offset

    def _check_topics(self, first: Mapping[TopicPartition, int]) -> set[TopicPartition]:
        """Look whether topics are what they were, at once if records would be left out; return what begins anew.

        Args:
            first: the offset of each partition's first record.

        Raises:
            RetriableError: records would be left out, and no broker says whether they are the topic's.
        """
        left_out = {place.topic for place, offset in first.items() if offset < self._next_offset(place)}
        self._unconfirmed |= left_out
        anew: set[TopicPartition] = set()
        for topic in sorted({place.topic for place in first}):
            found = self._topics.ask(topic) if topic in left_out else self._topics.ask_if_possible(topic)
            anew |= self._compare(topic, found)
        return anew

    def _confirm_topics(self) -> None:
        """Look once more: a broker that had not heard yet of a change may have been asked before."""
        for topic in sorted(self._unconfirmed):
            self._seek_behind_stored(self._compare(topic, self._topics.ask_if_possible(topic, age_max_s=0)))
        self._unconfirmed.clear()

    def _compare(self, topic: str, topic_id: str | None) -> set[TopicPartition]:
        """Take note of a topic's id; return its partitions if it is another topic than before."""
        known, self._topic_ids[topic] = self._topic_ids.get(topic), topic_id
        if not is_another(topic_id, known):
            return set()
        self.context.log.warning("the topic %s was created anew, with the id %s", topic, topic_id)
        return {partition for partition in self._stored_offsets if partition.topic == topic}
