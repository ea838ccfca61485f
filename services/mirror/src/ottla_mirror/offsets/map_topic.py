"""The store of copies: a compacted topic of the target, one for each source.

Everything is read at the start and followed from there, so that a partition can be taken over, and any group's
offsets be translated, by whichever worker is to. The records are described in `map_records.py`, what they mean
together in `map_state.py`, and what has to be written in `map_changes.py`.
"""

import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from ottla_core.errors import InvalidRecord
from ottla_core.wire.records import Record
from ottla_mirror.internal_topics.errors import InternalTopicError, WrittenByNewerVersion
from ottla_mirror.internal_topics.internal_topic import OPERATION_TIMEOUT_S, InternalTopic
from ottla_mirror.internal_topics.topic_follower import TopicFollower
from ottla_mirror.internal_topics.topic_requests import Entry
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.map_changes import (
    Snapshot,
    StoredByWriter,
    changes,
    deletions,
    first_changes,
    is_overtaken,
    snapshot,
    taken_over,
)
from ottla_mirror.offsets.map_records import (
    PartitionName,
    PositionWriter,
    UnknownVersion,
    encode_key,
    encode_session,
    session_key,
)
from ottla_mirror.offsets.map_state import MapState
from ottla_mirror.offsets.stored_copy import Prepared, Session, StoredCopy

READ_ALL_TIMEOUT_S: Final = 600.0


def map_topic_name(source_alias: str) -> str:
    """Return the name of the topic that keeps the maps of a source's copies."""
    return f"{source_alias}.offset-map.internal"


class MapTopic:
    """A `CopyStore` in a topic.

    Args:
        topic: the topic.
    """

    def __init__(self, topic: InternalTopic) -> None:
        self._topic = topic
        self._state = MapState()
        self._follower = TopicFollower(topic, on_records=self._apply, on_restart=self._state.clear)
        self._nonce = secrets.randbits(32)
        self._written: dict[PartitionName, StoredByWriter] = {}

    async def start(self) -> None:
        """Make the topic if it is not there, and read all of it.

        Raises:
            WrittenByNewerVersion: a record has a format of a later version.
            InternalTopicError: the topic cannot be made or read.
            AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        await self._topic.ensure()
        await self._follower.catch_up(timeout_s=READ_ALL_TIMEOUT_S)

    async def load(self, partitions: Collection[SourcePartition]) -> dict[SourcePartition, StoredCopy]:
        """Take partitions over, and return how far their copies have come; see `CopyStore.load`.

        Raises:
            InternalTopicError: the topic cannot be read, or has something else in it.
            AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        await self._follower.catch_up()
        found = {}
        for partition in partitions:
            name = PartitionName(partition.topic, partition.partition)
            if (copy := self._copy(name)) is not None:
                found[partition] = copy
            self._take_over(name, self._next_number(name))
        return found

    async def read(self, timeout_s: float = OPERATION_TIMEOUT_S) -> None:
        """Have `copy` answer by what is stored now; errors as with `load`."""
        await self._follower.catch_up(timeout_s=timeout_s)

    def copy(self, topic: str, partition: int) -> StoredCopy | None:
        """Return how far a partition's copy had come when `read` was called last; its map is the caller's own.

        Raises:
            InternalTopicError: a record of it cannot be read.
        """
        return self._copy(PartitionName(topic, partition))

    def revision(self, topic: str, partition: int) -> int:
        """Return a number that is another whenever `copy` may say something else."""
        return self._state.revision(PartitionName(topic, partition))

    async def begin_session(self, partition: SourcePartition, session: Session) -> Session:
        """Store a session and return the one that holds now; see `CopyStore.begin_session`.

        Raises:
            InternalTopicError: it could not be stored, as far as we hear; it may hold nevertheless.
            AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        name = PartitionName(partition.topic, partition.partition)
        entry = Entry(encode_key(session_key(name, session)), encode_session(session))
        offset = await self._topic.append([entry])
        await self._follower.catch_up(at_least=offset)
        holder = self._state.session(name)
        if holder is None:
            raise InternalTopicError(f"{self._topic}: what was written about {partition} is not there any more")
        self._take_over(name, self._state.session_offset(name))
        return holder

    async def save(self, copies: Mapping[SourcePartition, StoredCopy]) -> None:
        """Store how far copies have come as this is called; see `CopyStore.save`.

        Raises:
            InternalTopicError: some may not have been stored.
            AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        # Taken before the first wait: the maps are changed while this one waits.
        taken = {PartitionName(each.topic, each.partition): snapshot(copy) for each, copy in copies.items()}
        await self._follower.catch_up()
        entries: list[Entry] = []
        stored: dict[PartitionName, tuple[StoredByWriter, StoredByWriter]] = {}
        for name, copy in taken.items():
            before = self._written.get(name)
            if before is None or self._is_overtaken(name, copy, before):
                before = self._take_over(name, self._next_number(name))
            added, after = changes(name, copy, before)
            if added:
                entries += added
                stored[name] = (before, after)
        if not entries:
            return
        await self._topic.append(entries)
        for name, (before, after) in stored.items():
            if self._written.get(name) is before:
                self._written[name] = after

    # What transactions write

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._topic.name

    async def leader(self) -> int:
        """Return the broker that leads the topic's partition.

        Raises:
            Unreachable: nobody leads it, or says so.
            AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        return await self._topic.find_leader()

    def prepare(self, partition: SourcePartition, copied: StoredCopy) -> Prepared:
        """Return what a transaction has to write; see `TransactionalStore.prepare`. `load` comes before.

        Raises:
            InternalTopicError: what is stored cannot be read.
        """
        name = PartitionName(partition.topic, partition.partition)
        written = self._written[name]
        if written.position is not None and written.position.session == copied.session.name:
            return Prepared(*changes(name, snapshot(copied), written))
        try:
            before = self._state.session(name)
        except InvalidRecord as error:
            raise self._unreadable(name, error) from error
        return Prepared(*first_changes(name, copied, written, before))

    def on_committed(self, partition: SourcePartition, copied: StoredCopy, prepared: Prepared) -> None:
        """Take note of what a transaction has stored."""
        assert isinstance(prepared.after, StoredByWriter)
        self._written[PartitionName(partition.topic, partition.partition)] = prepared.after

    async def forget(self, partitions: Collection[SourcePartition]) -> None:
        """Delete all that is stored of partitions; errors as with `save`."""
        await self._follower.catch_up()
        keys = [key for each in partitions for key in self._state.keys(PartitionName(each.topic, each.partition))]
        await self._topic.append(deletions(keys))
        for each in partitions:
            self._written.pop(PartitionName(each.topic, each.partition), None)

    def _next_number(self, name: PartitionName) -> int:
        try:
            following = self._state.next_writer_number(name)
        except InvalidRecord as error:
            raise self._unreadable(name, error) from error
        former = self._written.get(name)
        if former is None or former.position is None:
            return following
        return max(following, former.writer.number + 1)  # its position may not have been read back

    def _is_overtaken(self, name: PartitionName, copy: Snapshot, written: StoredByWriter) -> bool:
        try:
            return is_overtaken(self._state, name, copy, written)
        except InvalidRecord as error:
            raise self._unreadable(name, error) from error

    def _take_over(self, name: PartitionName, number: int) -> StoredByWriter:
        """Write from now on under this number."""
        try:
            written = taken_over(self._state, name, PositionWriter(number, self._nonce))
        except InvalidRecord as error:
            raise self._unreadable(name, error) from error
        self._written[name] = written
        return written

    def _copy(self, name: PartitionName) -> StoredCopy | None:
        try:
            return self._state.copy(name)
        except InvalidRecord as error:
            raise self._unreadable(name, error) from error

    def _unreadable(self, name: PartitionName, error: InvalidRecord) -> InternalTopicError:
        return InternalTopicError(f"{self._topic}: the map of {name.topic}-{name.partition}: {error.message}")

    def _apply(self, records: Sequence[Record]) -> None:
        for record in records:
            try:
                self._state.apply(record)
            except UnknownVersion as error:
                raise WrittenByNewerVersion(
                    f"{self._topic}: the record at offset {record.offset} {error.message}. A newer version of Ottla "
                    f"has written it; use that version"
                ) from None
            except InvalidRecord as error:
                raise InternalTopicError(
                    f"{self._topic}: the record at offset {record.offset} {error.message}. "
                    f"Something else writes to this topic"
                ) from None
