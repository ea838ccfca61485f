"""Consumers of the consumer protocol as small state machines, which do what real ones do.

A consumer knows its epoch, what it owns and what it was told to own. It gives up what it was not told to keep, which
may take it a few heartbeats, and only then takes over what is new. Whoever is fenced gives up everything and joins
anew. A consumer that has fallen silent stops consuming when its session is over, as far as it knows.

One that `takes_over_late` does as librdkafka while it looks up a topic: it reports what it owned before it was told
anything, and takes over what it was told with that report on its way. If that takes it a few heartbeats, these say
nothing new.
"""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

Partition = tuple[UUID, int]
FENCED = {ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id, ErrorCode.group_id_not_found}
RELEASED = {ErrorCode.unreleased_instance_id, ErrorCode.fenced_instance_id}


@dataclass
class SimulatedConsumer:
    """One process.

    Attributes:
        is_silent: whether it sends nothing any more.
        owned: what it uses.
        told: what it was told to own; None before the first answer.
        missed_answer: whether it has to say everything again, since it does not know what became of its request.
        steps_to_revoke: how many heartbeats it takes to give partitions up.
        takes_over_late: whether it takes over what it was told after it has reported what it owns.
        steps_to_take_over: how many heartbeats it lets pass before that.
    """

    name: str
    topics: frozenset[str]
    regex: str = ""
    instance_id: str | None = None
    assignor: str | None = None
    steps_to_revoke: int = 0
    takes_over_late: bool = False
    steps_to_take_over: int = 0
    epoch: int = 0
    is_silent: bool = False
    missed_answer: bool = False
    subscription_is_news: bool = False
    owned: set[Partition] = field(default_factory=set)
    told: set[Partition] | None = None
    _reported: set[Partition] | None = None
    _steps: int = 0
    _passed: int = 0

    def next_request(self) -> dict[str, Any]:
        """Return what its next heartbeat says."""
        if not self.takes_over_late:
            self._reconcile()
        takes_over_soon = self.takes_over_late and self._passed >= self.steps_to_take_over
        is_full = self.epoch == 0 or self.missed_answer or (takes_over_soon and not self.owned)
        says_subscription = is_full or self.subscription_is_news
        says_owned = is_full or self._reported != self.owned
        self._reported = set(self.owned)
        request = {
            "member_id": self.name,
            "member_epoch": self.epoch,
            "instance_id": self.instance_id,
            "rebalance_timeout_ms": 60_000 if is_full else -1,
            "subscribed_topic_names": tuple(sorted(self.topics)) if says_subscription else None,
            "subscribed_topic_regex": self.regex if says_subscription else None,
            "server_assignor": self.assignor if is_full else None,
            "topic_partitions": frozenset(self.owned) if says_owned else None,
        }
        if self.takes_over_late and self.epoch > 0 and not self.subscription_is_news:
            if takes_over_soon:
                self._reconcile()  # what it is told upon another subscription replaces what it has not taken over
            self._passed = 0 if takes_over_soon else self._passed + 1
        return request

    def _reconcile(self) -> None:
        """Go on with giving up, and then taking over, what it was told."""
        if self.told is None:
            return
        if self.owned - self.told:
            if self._steps < self.steps_to_revoke:
                self._steps += 1
                return
            self.owned &= self.told
        self._steps = 0
        self.owned = set(self.told)

    def on_answer(self, response: Any) -> None:
        """Take an answer."""
        self.missed_answer = False
        if response.error_code in FENCED | RELEASED:
            self.lose_all()
            return
        assert response.error_code is ErrorCode.none, response
        self.epoch = response.member_epoch
        self.subscription_is_news = False
        if response.assignment is not None:
            self.told = {
                (topic.topic_id, index)
                for topic in response.assignment.topic_partitions
                for index in topic.partitions
            }

    def on_no_answer(self) -> None:
        """Notice that a request was not answered."""
        self.missed_answer = True

    def lose_all(self) -> None:
        """Give everything up, and join anew with the next heartbeat."""
        self.epoch, self.told, self._reported, self._steps, self._passed = 0, None, None, 0, 0
        self.owned = set()
