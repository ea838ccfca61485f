"""The client's side of a fetch session (KIP-227): only what has changed is asked, so idle partitions cost nothing.

The broker remembers from where each partition is fetched. A partition leaves the session while it is not wanted, and
comes back with its present offset. After any doubt a full request begins a new session.
"""

from collections.abc import Collection, Hashable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from ottla_core.wire.consumer_fetch import FIRST_VERSION_WITH_SESSIONS, FetchAsked, TopicKey
from ottla_core.wire.record_batch import INT32_MAX
from ottla_core.wire.replica_fetch_request import FIRST_EPOCH, NO_SESSION

Member = TypeVar("Member", bound=Hashable)
WITHOUT_SESSION_EPOCH: Final = -1


class FetchPlan(NamedTuple):
    """What to ask.

    Attributes:
        session: id and epoch.
        asked: partitions that are new to the session or changed, by topic.
        forgotten: numbers of partitions that leave it, by topic.
    """

    session: tuple[int, int]
    asked: Mapping[TopicKey, Collection[FetchAsked]]
    forgotten: Mapping[TopicKey, Collection[int]]


class FetchSession(Generic[Member]):
    """The session with one broker, on one connection.

    Args:
        version: of the API; before version 7 there are no sessions, and every request is a full one.

    Attributes:
        members: what is fetched at present, and how it was asked last.
    """

    def __init__(self, version: int) -> None:
        self._has_sessions = version >= FIRST_VERSION_WITH_SESSIONS
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self.members: dict[Member, tuple[TopicKey, FetchAsked]] = {}

    def plan(self, changed: Mapping[Member, tuple[TopicKey, FetchAsked] | None]) -> FetchPlan:
        """Return what to ask, with what has changed since the last plan: None for a partition not wanted any more."""
        asked: dict[TopicKey, list[FetchAsked]] = {}
        forgotten: dict[TopicKey, list[int]] = {}
        is_full = self._epoch == FIRST_EPOCH or not self._has_sessions
        for member, wanted in changed.items():
            former = self.members.pop(member, None)
            if wanted is not None:
                self.members[member] = wanted
                if not is_full:
                    asked.setdefault(wanted[0], []).append(wanted[1])
            elif former is not None and not is_full:
                forgotten.setdefault(former[0], []).append(former[1].partition)
        if is_full:
            for topic, each in self.members.values():
                asked.setdefault(topic, []).append(each)
        epoch = self._epoch if self._has_sessions else WITHOUT_SESSION_EPOCH
        return FetchPlan((self._id, epoch), asked, forgotten)

    def on_answered(self, session_id: int) -> None:
        """Go on with the session that the broker has opened or continued; 0 if it keeps none."""
        if session_id == NO_SESSION:
            self.begin_anew()
            return
        self._id = session_id
        self._epoch = self._epoch + 1 if self._epoch < INT32_MAX else 1

    def begin_anew(self) -> None:
        """Have the next request be a full one, of a new session."""
        self._id, self._epoch = NO_SESSION, FIRST_EPOCH
