"""What is kept of the copy of a partition: its session and how far it has come, with the map of offsets. Pure.

A *session* is a producer of the target that writes one life of one partition of the source, from one offset on, each
batch with the number of records before it as its sequence. It ends when the source or the target has another history
than the session began with; the next one says which it replaces, and of several that replace the same one the first
in the log of the store holds.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID

from ottla_mirror.internal_topics.topic_requests import Entry
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.leader_epochs import LeaderEpochs, below
from ottla_mirror.offsets.offset_map import OffsetMap


class SessionName(NamedTuple):
    """A producer of the target; no two sessions of a partition have the same.

    Attributes:
        producer_id: as the target gave it.
        producer_epoch: of that producer id.
    """

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A stretch of copying in which what is sent follows from the source alone.

    Attributes:
        producer_id: that of all its batches.
        producer_epoch: that of all its batches.
        source_topic_id: the life of the source's topic; the zero UUID where the source has no topic ids.
        source_start_offset: offset of the source with which it begins; the first record from there on has sequence 0.
        target_topic_id: the life of the target's topic; the zero UUID where the target has no topic ids.
        target_start_offset: the target's log end before it began: none of its records is below.
        replaces: the session before; None for the first of a partition.
        owner: the worker, in this life of its process, that alone writes in it; None if any worker may. A source with
            gaps (compaction) is not the same for all, so what follows a gap is only sent by an owner.
        is_transactional: whether it writes in transactions, together with the position. Its producer's epoch is
            that of its beginning; each transaction may raise it.
    """

    producer_id: int
    producer_epoch: int
    source_topic_id: UUID
    source_start_offset: int
    target_topic_id: UUID
    target_start_offset: int
    replaces: SessionName | None
    owner: UUID | None = None
    is_transactional: bool = False

    @property
    def name(self) -> SessionName:
        """Its producer."""
        return SessionName(self.producer_id, self.producer_epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCopy:
    """How far the copy of a partition has come.

    Attributes:
        session: the session that holds.
        next_sequence: of the first record that is not dealt with.
        map: of all that was copied, of former sessions too where they are the same history. It says the position: its
            `source_end` is the next source offset, its `target_end` the target offset behind the last copied record.
        epochs: of the source's leaders, up to the position. They show that the source has another history by then.
    """

    session: Session
    next_sequence: int
    map: OffsetMap
    epochs: LeaderEpochs = ()

    @property
    def next_source_offset(self) -> int:
        """The source offset of the first record that is not dealt with."""
        return self.map.source_end

    @property
    def target_offset(self) -> int:
        """The target offset behind the last copied record; those that the store does not know are not below."""
        return self.map.target_end


def begun(session: Session, before: StoredCopy | None) -> StoredCopy:
    """Return the copy of a partition as a session begins.

    Args:
        session: the new one.
        before: how far the session before had come, if there was one and its position is known. Its map goes on in
            the new copy where both topics are the same, but for what the source has other records for. What the
            former session may have copied behind that position is a hole of the map.

    Raises:
        InvalidRecord: a stored chunk of the map cannot be read.
    """
    start, target_start = session.source_start_offset, session.target_start_offset
    if before is None and session.replaces is not None:
        unknown = OffsetMap(0, 0)
        unknown.lose_until(start, target_start)
        return StoredCopy(session=session, next_sequence=0, map=unknown)
    if before is None or not _has_same_topics(session, before.session):
        return StoredCopy(session=session, next_sequence=0, map=OffsetMap(start, target_start))
    offsets = before.map
    epochs: LeaderEpochs = ()
    if offsets.source_end < start:
        offsets.lose_until(start, target_start)
    else:
        epochs = below(before.epochs, start)
        offsets.truncate_from(start)
        offsets.cut_target(target_start)
        offsets.skip_target_to(target_start)
    return StoredCopy(session=session, next_sequence=0, map=offsets, epochs=epochs)


def _has_same_topics(one: Session, other: Session) -> bool:
    return (one.source_topic_id, one.target_topic_id) == (other.source_topic_id, other.target_topic_id)


class Prepared(NamedTuple):
    """What has to be written for a position to be stored.

    Attributes:
        entries: the records, in order.
        after: what is stored once they are; the store's own.
    """

    entries: list[Entry]
    after: object


class TransactionalStore(Protocol):
    """Where copies are kept whose positions are written by the transactions that write their records."""

    @property
    def topic(self) -> str:
        """The topic that takes the records, in its partition 0."""
        ...

    async def leader(self) -> int:
        """Return the broker to write to, as of now.

        Raises:
            OttlaError: nobody knows it.
        """
        ...

    async def load(self, partitions: Collection[SourcePartition]) -> dict[SourcePartition, StoredCopy]:
        """See `CopyStore.load`; what is not committed is not seen."""
        ...

    def prepare(self, partition: SourcePartition, copied: StoredCopy) -> Prepared:
        """Return what is to be written in the transaction that ends at this position; no entries if that is stored.

        Raises:
            OttlaError: what is stored cannot be read.
        """
        ...

    def on_committed(self, partition: SourcePartition, copied: StoredCopy, prepared: Prepared) -> None:
        """Take note that a transaction with these records was committed."""
        ...


class CopyStore(Protocol):
    """Where the copies of a flow's partitions are kept; see `map_topic.py`."""

    async def load(self, partitions: Collection[SourcePartition]) -> dict[SourcePartition, StoredCopy]:
        """Return how far the copies have come, as of now; partitions that were never copied are absent.

        The session of another life of the source's topic is found too: it is the one to replace.
        A map may have holes (`OffsetMap.holes`), which the caller is to fill from both logs.

        Raises:
            OttlaError: the store cannot be read.
        """
        ...

    async def begin_session(self, partition: SourcePartition, session: Session) -> Session:
        """Store a session and return the one that holds now: this one, unless another has replaced the same before.

        The position of the session before has to be saved: what it copied behind it would be a hole of the map.

        Raises:
            OttlaError: it could not be stored, as far as we hear; it may hold nevertheless.
        """
        ...

    async def save(self, copies: Mapping[SourcePartition, StoredCopy]) -> None:
        """Store how far the copies have come as this is called, acknowledged by all in-sync replicas.

        What is saved of a session that holds no more is ignored by all who load.

        Raises:
            OttlaError: some may not have been stored; they can be saved again.
        """
        ...
