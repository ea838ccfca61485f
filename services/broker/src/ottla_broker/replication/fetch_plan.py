"""What a follower asks a leader for next, and its side of the fetch session (KIP-227). Pure.

In a session the leader remembers from where each partition is fetched, and a request names only what is different
from the last one: partitions whose log has grown, new ones, and those to be left out. So a request costs what has
happened and not how many partitions there are; the plan keeps to that and never walks over all of them, except to
open a session.

A partition that failed, is throttled or waits for something leaves the session until its pause is over.

Times are monotonic milliseconds.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_broker.replica.follower_replica import NO_BYTES, FetchPosition
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.replica_fetch_request import FIRST_EPOCH, NO_SESSION, PartitionFetch

PartitionKey = tuple[UUID, int]
"""Topic id and index."""

FIRST_PAUSE_MS: Final = 20
"""After its first failure a partition is soon tried again: a new leader often learns of its election a moment later
than its followers. Each further failure in a row doubles the pause, up to `replica.fetch.backoff.ms`."""
SESSION_EPOCH_MAX: Final = 2**31 - 1


class Fetchable(Protocol):
    """What a plan needs of this broker's replica of a partition."""

    @property
    def topic_id(self) -> UUID:
        """The topic's id where it is fetched."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition's name here."""

    def fetch_position(self) -> FetchPosition:
        """Return from where it has to be fetched."""


Fetched = TypeVar("Fetched", bound=Fetchable)


@dataclass(slots=True, eq=False)
class FollowedPartition(Generic[Fetched]):
    """One partition that is fetched.

    Attributes:
        partition: this broker's replica.
        leader_epoch: in which it is followed.
        asked: what the leader's session holds of it; None if it is not in the session.
        end_offset: where the replica's log must end for what arrives to belong there.
        lags: whether the leader had more at the last answer; what is not known yet counts as lagging.
        failures: how often it has failed in a row.
        failure: what was reported last, so that it is reported once.
        is_paused: whether it is left out for the time being.
    """

    partition: Fetched
    leader_epoch: int
    asked: PartitionFetch | None = None
    end_offset: int = 0
    lags: bool = True
    failures: int = 0
    failure: ErrorCode | None = None
    is_paused: bool = False
    pause: int = field(default=0, repr=False)

    @property
    def key(self) -> PartitionKey:
        """Its topic id and index."""
        return self.partition.topic_id, self.partition.topic_partition.partition


class PlannedFetch(NamedTuple):
    """A request: the session's id and epoch, and partitions by topic id."""

    session: tuple[int, int]
    asked: dict[UUID, list[PartitionFetch]]
    forgotten: dict[UUID, list[int]]


class FetchPlan(Generic[Fetched]):
    """The partitions that one fetcher follows, and its session.

    Args:
        bytes_max: how much of a partition to ask for.
        pause_ms_max: `replica.fetch.backoff.ms`.
        throttled_ms: for how long a partition must not be fetched; 0 if it may.
    """

    __slots__ = (
        "_bytes_max", "_changed", "_followed", "_forgotten", "_in_session", "_pause_ms_max", "_pause_numbers",
        "_paused", "_session_epoch", "_session_id", "_throttled_ms",
    )  # fmt: skip

    def __init__(
        self,
        bytes_max: Callable[[FollowedPartition[Fetched]], int],
        pause_ms_max: int,
        throttled_ms: Callable[[FollowedPartition[Fetched], int], int] = lambda _followed, _now_ms: 0,
    ) -> None:
        self._bytes_max = bytes_max
        self._pause_ms_max = pause_ms_max
        self._throttled_ms = throttled_ms
        self._followed: dict[PartitionKey, FollowedPartition[Fetched]] = {}
        self._changed: dict[PartitionKey, FollowedPartition[Fetched]] = {}
        self._forgotten: set[PartitionKey] = set()
        self._paused: list[tuple[int, int, FollowedPartition[Fetched]]] = []
        self._pause_numbers = count(1)
        self._in_session = 0
        self._session_id = NO_SESSION
        self._session_epoch = FIRST_EPOCH

    def __len__(self) -> int:
        return len(self._followed)

    def get(self, topic_id: UUID, index: int) -> FollowedPartition[Fetched] | None:
        """Return a partition that is followed."""
        return self._followed.get((topic_id, index))

    def is_present(self, followed: FollowedPartition[Fetched]) -> bool:
        """Return whether a partition is still followed, and not anew."""
        return self._followed.get(followed.key) is followed

    # Which partitions

    def follow(self, partition: Fetched) -> bool:
        """Fetch a partition and return True; or return False if it is fetched already in its present leader epoch."""
        key = partition.topic_id, partition.topic_partition.partition
        leader_epoch = partition.fetch_position().leader_epoch
        followed = self._followed.get(key)
        if followed is not None and followed.partition is partition and followed.leader_epoch == leader_epoch:
            return False
        self.unfollow(key)
        followed = self._followed[key] = FollowedPartition(partition, leader_epoch)
        self.resume(followed)
        return True

    def unfollow(self, key: PartitionKey) -> None:
        """Fetch a partition no longer."""
        followed = self._followed.pop(key, None)
        if followed is not None:
            self._leave_out(followed)
            followed.is_paused = False

    def moved(self, followed: FollowedPartition[Fetched]) -> None:
        """Note that a partition is to be fetched from another offset than the leader knows."""
        if not followed.is_paused and self.is_present(followed):
            self._changed[followed.key] = followed

    def succeeded(self, followed: FollowedPartition[Fetched]) -> None:
        """Note that a fetch of a partition went well."""
        followed.failures = 0
        followed.failure = None

    def failed(self, followed: FollowedPartition[Fetched], now_ms: int) -> None:
        """Leave a partition out for a while, the longer the more often it has failed."""
        pause_ms = min(FIRST_PAUSE_MS << min(followed.failures, 16), self._pause_ms_max)
        followed.failures += 1
        self.pause(followed, now_ms + pause_ms)

    def pause(self, followed: FollowedPartition[Fetched], until_ms: int | None) -> None:
        """Leave a partition out until a time, or until `resume`."""
        if not self.is_present(followed):
            return
        self._leave_out(followed)
        followed.is_paused = True
        followed.pause = next(self._pause_numbers)
        if until_ms is not None:
            heapq.heappush(self._paused, (until_ms, followed.pause, followed))

    def resume(self, followed: FollowedPartition[Fetched]) -> None:
        """End a pause."""
        followed.is_paused = False
        self.moved(followed)

    def _leave_out(self, followed: FollowedPartition[Fetched]) -> None:
        key = followed.key
        self._changed.pop(key, None)
        if followed.asked is not None:
            followed.asked = None
            self._in_session -= 1
            self._forgotten.add(key)

    # Requests

    def next_fetch(self, now_ms: int) -> PlannedFetch | None:
        """Return what to ask for now, or None if there is nothing to fetch."""
        self._end_pauses(now_ms)
        self._hold_back_throttled(now_ms)
        if not self._in_session and not self._changed:
            return None
        asked: dict[UUID, list[PartitionFetch]] = {}
        for (topic_id, _), followed in self._changed.items():
            asked.setdefault(topic_id, []).append(self._ask(followed))
        self._changed.clear()
        forgotten: dict[UUID, list[int]] = {}
        if self._session_epoch != FIRST_EPOCH:
            for topic_id, index in self._forgotten:
                followed_again = self._followed.get((topic_id, index))
                if followed_again is None or followed_again.asked is None:
                    forgotten.setdefault(topic_id, []).append(index)
        self._forgotten.clear()
        return PlannedFetch((self._session_id, self._session_epoch), asked, forgotten)

    def next_look_ms(self) -> int | None:
        """Return when a pause ends, or None."""
        return self._paused[0][0] if self._paused else None

    def _ask(self, followed: FollowedPartition[Fetched]) -> PartitionFetch:
        partition = followed.partition
        position = partition.fetch_position()
        if followed.asked is None:
            self._in_session += 1
        followed.asked = asked = PartitionFetch(
            partition.topic_partition.partition,
            position.leader_epoch,
            position.offset,
            position.last_fetched_epoch,
            position.log_start_offset,
            self._bytes_max(followed) if position.claims_all else NO_BYTES,
        )
        followed.end_offset = position.offset
        return asked

    def _end_pauses(self, now_ms: int) -> None:
        paused = self._paused
        while paused and paused[0][0] <= now_ms:
            _, number, followed = heapq.heappop(paused)
            if followed.is_paused and followed.pause == number:
                self.resume(followed)

    def _hold_back_throttled(self, now_ms: int) -> None:
        for followed in tuple(self._changed.values()):
            if wait_ms := self._throttled_ms(followed, now_ms):
                self.pause(followed, now_ms + wait_ms)

    # The session

    def answered(self, session_id: int) -> None:
        """Note the session that an answer belongs to; one that belongs to none has to be asked for anew."""
        if session_id == NO_SESSION:
            self._start_over(NO_SESSION)
            return
        self._session_id = session_id
        self._session_epoch = 1 if self._session_epoch == SESSION_EPOCH_MAX else self._session_epoch + 1

    def session_refused(self, error: ErrorCode) -> None:
        """Note that a whole request was refused; the next one opens a session."""
        self._start_over(NO_SESSION if error is ErrorCode.fetch_session_id_not_found else self._session_id)

    def disconnected(self) -> None:
        """Note that an answer may be lost; the next request closes the session if it is still there."""
        self._start_over(self._session_id)

    def _start_over(self, session_id: int) -> None:
        """Open a new session with the next request, in place of the one of an id."""
        self._session_id, self._session_epoch = session_id, FIRST_EPOCH
        former = self._changed
        self._changed = {key: followed for key, followed in self._followed.items() if not followed.is_paused}
        for key in former:  # what has just moved comes last, so that the others get their share of the answer
            if key in self._changed:
                self._changed[key] = self._changed.pop(key)
        for followed in self._followed.values():
            followed.asked = None
        self._in_session = 0
        self._forgotten.clear()
