"""What readers want of which partitions, and what they were told last: fetch sessions (KIP-227). Pure.

A reader that has a session names a partition once, and again only when it wants something else of it, such as a
later offset. The answers leave out partitions of which there is nothing new. A fetch without a session is treated as
a session of that one request.

Kafka looks at every partition of a session in every fetch. Here a session is lazy: it keeps the partitions that may
have something new for its reader, the *dirty* ones, and a fetch looks at those only. A partition that is not dirty is
watched, and becomes dirty by what happens to it; so a thousand idle partitions cost a fetch nothing, and the session
of a reader that has gone costs each partition one call. Dirty stays what was given records (the reader may not have
got them), what has more of them, and what has an error.

The dirty partitions stand in a queue: what was given records goes to the end of it, so that a full response does not
starve anybody.

`FetchSessionCache` decides which sessions are kept from one request to the next.

Source of the rules: Kafka's FetchSession and FetchManager.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from typing import Final, Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_broker.partition import Partition
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_core.errors import KafkaError
from ottla_core.wire.replica_fetch_request import PartitionFetch

NO_SESSION: Final = 0
FETCH_SESSION_ID_MAX: Final = 2**31 - 1
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1

EVICTION_MS_MIN: Final = 120_000
"""How long a session is safe: from its last request, and from its beginning against larger ones."""
PARTITIONS_PER_SLOT_MAX: Final = 1000
"""Partitions that readers other than followers may keep in all sessions together, for each slot of the cache."""
SESSION_PARTITIONS_MAX: Final = 100_000
"""Partitions that a reader other than a follower may keep in one session; one with more asks for all, every time."""

NEVER_TOLD: Final = -1

Named = str | UUID
"""A topic's name or, in newer versions of Fetch, its id."""


class FetchSessionIdNotFound(KafkaError):
    """The reader's session has been evicted, or never was; it has to name all its partitions again."""

    code = ErrorCode.fetch_session_id_not_found


class InvalidFetchSessionEpoch(KafkaError):
    """A request of the session was lost, repeated, or overtaken."""

    code = ErrorCode.invalid_fetch_session_epoch


class FetchSessionTopicIdError(KafkaError):
    """The session names topics by id and the request by name, or the other way round."""

    code = ErrorCode.fetch_session_topic_id_error


class WaitingFetch(Protocol):
    """A fetch that waits for something new."""

    def on_append(self, partition: Partition, size_bytes: int) -> None:
        """The leader's log has grown."""

    def on_high_watermark(self, partition: Partition) -> None:
        """The high watermark has moved."""

    def on_change(self) -> None:
        """A partition's role, in-sync set or start offset have changed."""

    def hurry(self) -> None:
        """Answer with what there is."""

    def refuse(self, error: KafkaError) -> None:
        """Answer with an error."""


class SessionPartition:
    """What a reader wants of one partition, and what it was told of it last.

    Attributes:
        named: the topic.
        asked: the partition's index, where to read, and so on.
        told_high_watermark: what the reader knows, `NEVER_TOLD` after an error.
        told_log_start_offset: what the reader knows.
        is_unrecorded: whether the follower's position is still to be noted at the leader's.
        watched: the partition that it hears of, if any.
        followed: the partition whose leader has noted the follower's position, if it has.
        session: what it belongs to, while it watches; else the two would be a cycle, and the sessions of one request
            work for the garbage collector.
    """

    __slots__ = (
        "asked", "followed", "is_unrecorded", "named", "session", "told_high_watermark", "told_log_start_offset",
        "watched",
    )  # fmt: skip

    def __init__(self, named: Named, asked: PartitionFetch) -> None:
        self.named = named
        self.asked = asked
        self.is_unrecorded = True
        self.told_high_watermark = NEVER_TOLD
        self.told_log_start_offset = NEVER_TOLD
        self.watched: Partition | None = None
        self.followed: Partition | None = None
        self.session: FetchSession | None = None

    def on_append(self, partition: Partition, size_bytes: int) -> None:
        """News for a follower; others wait for the high watermark."""
        session = self.session
        if session is None:
            return
        if session.follower is not None:
            session.mark(self)
        if session.waiting is not None:
            session.waiting.on_append(partition, size_bytes)

    def on_high_watermark(self, partition: Partition) -> None:
        """News for everybody."""
        session = self.session
        if session is None:
            return
        session.mark(self)
        if session.waiting is not None:
            session.waiting.on_high_watermark(partition)

    def on_change(self, _: Partition) -> None:
        """News for everybody; a leader may have forgotten how far this follower is."""
        session = self.session
        if session is None:
            return
        self.is_unrecorded = True
        session.mark(self)
        if session.waiting is not None:
            session.waiting.on_change()

    def watch(self, partition: Partition, session: "FetchSession") -> None:
        """Hear what happens to the partition, which may be another one than before if its topic was made anew."""
        if self.watched is not partition:
            self.unwatch()
            partition.watch(self)
            self.watched = partition
        self.session = session

    def unwatch(self) -> None:
        """Undo `watch`."""
        if self.watched is not None:
            self.watched.unwatch(self)
            self.watched = self.session = None


class FetchSession:
    """The partitions that one reader wants.

    Attributes:
        follower: who replicates through this session; None for any other reader.
        uses_topic_ids: whether topics are named by their ids.
        id: `NO_SESSION` until the cache keeps it.
        epoch: what the next request must carry.
        partitions: all of them, by topic and index.
        size: how many there are.
        dirty: those that may have something new, in the order of their turns.
        waiting: the fetch that waits at present.
        created_ms: when the cache began to keep it.
        last_used_ms: when its last request came.
        cached_size: how many partitions the cache counts for it.
    """

    __slots__ = (
        "cached_size", "created_ms", "dirty", "epoch", "follower", "id", "last_used_ms", "partitions", "size",
        "uses_topic_ids", "waiting",
    )  # fmt: skip

    def __init__(self, *, follower: FollowerContact | None, uses_topic_ids: bool) -> None:
        self.follower = follower
        self.uses_topic_ids = uses_topic_ids
        self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self.partitions: dict[Named, dict[int, SessionPartition]] = {}
        self.size = 0
        self.dirty: dict[SessionPartition, None] = {}
        self.waiting: WaitingFetch | None = None
        self.created_ms = 0
        self.last_used_ms = 0
        self.cached_size = 0

    def __iter__(self) -> Iterator[SessionPartition]:
        return (partition for of_topic in self.partitions.values() for partition in of_topic.values())

    def ask(self, named: Named, asked: PartitionFetch) -> None:
        """Add a partition, or change what the reader wants of it."""
        of_topic = self.partitions.get(named)
        if of_topic is None:
            of_topic = self.partitions[named] = {}
        partition = of_topic.get(asked.partition)
        if partition is None:
            partition = of_topic[asked.partition] = SessionPartition(named, asked)
            self.size += 1
        else:
            if asked.current_leader_epoch != partition.asked.current_leader_epoch:
                partition.told_high_watermark = NEVER_TOLD  # a follower lets go of answers of an earlier epoch
            partition.asked = asked
            partition.is_unrecorded = True
        self.dirty[partition] = None

    def forget(self, named: Named, index: int) -> None:
        """Remove a partition, if it is there."""
        of_topic = self.partitions.get(named, {})
        partition = of_topic.pop(index, None)
        if partition is not None:
            self.size -= 1
            self.dirty.pop(partition, None)
            partition.unwatch()
            if self.follower is not None and partition.followed is not None:
                partition.followed.follower_has_left(self.follower.broker_id)
            if not of_topic:
                del self.partitions[named]

    def mark(self, partition: SessionPartition) -> None:
        """Have the next look include a partition; until then nobody needs to hear of it, unless a fetch waits."""
        self.dirty[partition] = None
        if self.waiting is None:
            partition.unwatch()

    def settle(self, wanted: SessionPartition, partition: Partition) -> None:
        """Leave a partition out of account until something happens to it."""
        self.dirty.pop(wanted, None)
        wanted.watch(partition, self)

    def move_to_end(self, partition: SessionPartition) -> None:
        """Let the other dirty partitions have their turn first."""
        del self.dirty[partition]
        self.dirty[partition] = None

    def unwatch_all(self) -> None:
        """Hear of no partition any more."""
        for partition in self:
            partition.unwatch()


class FetchSessionCache:
    """The sessions that are kept from one request to the next.

    When all slots are taken, a new session takes the place of one that has not been used for `EVICTION_MS_MIN`. Else
    a follower's may displace any other reader's, and everybody's may displace a smaller one that is older than
    `EVICTION_MS_MIN`; a follower's counts as larger than any other reader's.

    Args:
        slots: how many sessions are kept.
        draw_id: returns a random number from 1 to 2^31 - 1.

    Attributes:
        eviction_count: how many sessions were displaced.
        partition_count: partitions in all sessions.
    """

    def __init__(self, slots: int, draw_id: Callable[[], int]) -> None:
        self._slots = slots
        self._draw_id = draw_id
        self._sessions: dict[int, FetchSession] = {}
        """In the order of their last use."""
        self._evictable_by_all = _EvictionOrder()
        self._evictable_by_followers = _EvictionOrder()
        self.eviction_count = 0
        self.partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def resume(
        self, session_id: int, epoch: int, follower: FollowerContact | None, *, uses_topic_ids: bool
    ) -> FetchSession:
        """Return the session that a request goes on with.

        Raises:
            FetchSessionIdNotFound: there is none, or it is somebody else's.
            InvalidFetchSessionEpoch: the request is not the one that comes next.
            FetchSessionTopicIdError: the request names topics in another way.
        """
        session = self._sessions.get(session_id)
        if session is None or _follower_id(session.follower) != _follower_id(follower):
            raise FetchSessionIdNotFound(f"there is no fetch session {session_id}")
        if session.epoch != epoch:
            raise InvalidFetchSessionEpoch(f"fetch session {session_id} is at epoch {session.epoch}, not {epoch}")
        if session.uses_topic_ids != uses_topic_ids:
            raise FetchSessionTopicIdError(f"fetch session {session_id} names topics in another way")
        if session.follower is not None and follower is not None:
            session.follower.broker_epoch = follower.broker_epoch
            session.follower.last_fetch_ms = follower.last_fetch_ms
        return session

    def resumed(self, session: FetchSession, now_ms: int) -> None:
        """Note that a session has taken in a request; without partitions, or with too many, it ends."""
        if not session.size:
            self.remove(session.id)
            return
        session.epoch = _next_epoch(session.epoch)
        self._touch(session, now_ms)
        if session.follower is None and not self._has_room(session, 0):
            self.remove(session.id)

    def keep(self, session: FetchSession, now_ms: int) -> bool:
        """Give a new session a slot and an id, if there is one for it."""
        size = session.size
        is_follower = session.follower is not None
        if not (is_follower or self._has_room(session, size)):
            return False
        if len(self._sessions) >= self._slots and not self._evict((is_follower, size, 0), now_ms):
            return False
        session.id = self._draw_id()
        while session.id in self._sessions:
            session.id = self._draw_id()
        session.epoch = _next_epoch(INITIAL_EPOCH)
        session.created_ms = now_ms
        self._sessions[session.id] = session
        self._touch(session, now_ms)
        return True

    def remove(self, session_id: int) -> None:
        """End a session, if there is one; a fetch that waits in it is answered with what there is."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        self._evictable_by_all.remove(session)
        self._evictable_by_followers.remove(session)
        self.partition_count -= session.cached_size
        session.id = NO_SESSION
        if session.waiting is not None:
            session.waiting.hurry()
        session.unwatch_all()

    def _has_room(self, session: FetchSession, more: int) -> bool:
        return (
            session.size <= SESSION_PARTITIONS_MAX
            and self.partition_count + more <= self._slots * PARTITIONS_PER_SLOT_MAX
        )

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        """Move a session to its place among those that were used last, and among those that could be displaced."""
        session.last_used_ms = now_ms
        del self._sessions[session.id]
        self._sessions[session.id] = session
        size = session.size
        self.partition_count += size - session.cached_size
        session.cached_size = size
        key = _eviction_key(session)
        is_old = now_ms - session.created_ms > EVICTION_MS_MIN
        if is_old or session.follower is None:
            self._evictable_by_followers.place(session, key)
        if is_old:
            self._evictable_by_all.place(session, key)

    def _evict(self, key: tuple[bool, int, int], now_ms: int) -> bool:
        """Displace a session for one with this key; return whether there was one to displace."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        victim: int | None = oldest.id
        if now_ms - oldest.last_used_ms <= EVICTION_MS_MIN:
            is_follower = key[0]
            victim = (self._evictable_by_followers if is_follower else self._evictable_by_all).first_up_to(key)
        if victim is None:
            return False
        self.remove(victim)
        self.eviction_count += 1
        return True


class _EvictionOrder:
    """Sessions that may be displaced, the least valuable first: those of readers, and the smallest."""

    def __init__(self) -> None:
        self._keys: list[tuple[bool, int, int]] = []
        self._by_id: dict[int, tuple[bool, int, int]] = {}

    def place(self, session: FetchSession, key: tuple[bool, int, int]) -> None:
        if self._by_id.get(session.id) != key:
            self.remove(session)
            self._by_id[session.id] = key
            insort(self._keys, key)

    def remove(self, session: FetchSession) -> None:
        key = self._by_id.pop(session.id, None)
        if key is not None:
            del self._keys[bisect_left(self._keys, key)]

    def first_up_to(self, key: tuple[bool, int, int]) -> int | None:
        """Return the id of the least valuable session if it is worth no more than one with this key."""
        return self._keys[0][2] if self._keys and self._keys[0] <= key else None


def _eviction_key(session: FetchSession) -> tuple[bool, int, int]:
    return session.follower is not None, session.cached_size, session.id


def _follower_id(contact: FollowerContact | None) -> int | None:
    return None if contact is None else contact.broker_id


def _next_epoch(epoch: int) -> int:
    return 1 if epoch == EPOCH_MAX else epoch + 1
