"""Which topics members that subscribe by a regular expression may describe: asked of brokers, and remembered.

Kafka's coordinator asks its authorizer when it resolves an expression. Here brokers have the authorizers, and clients
come to brokers: with each heartbeat of a client that may not see all topics a broker says who it is, and a number
that is another one whenever rights may have changed. That broker is asked which of the topics that the member's
expression matches the client may describe; the heartbeat waits for the answer, and the member is given no others. As
the number comes with each heartbeat, changed rights count from the next one on.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla_group_coordinator.consumer.group import ConsumerGroup
from ottla_group_coordinator.consumer.regular_expressions import matching
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.runtime.relay_stream import RelayStream
from ottla_group_coordinator.shard import GroupShard
from ottla_proto.gen.ottla import group_relay_pb2 as pb

CLIENTS_MAX: Final = 1000
"""Clients of which it is remembered what they may describe."""
MATCHES_MAX: Final = 128
"""Expressions of which the matching topics are remembered."""
WAITING_MAX: Final = 1000
"""Heartbeats that may wait for the rights of their clients."""
ANSWER_TIMEOUT_S: Final = 5.0


class RightsUnknown(Exception):
    """Nobody says what a client may describe; the message says why."""


class Asker(NamedTuple):
    """A client, as a broker under one of its registrations knows it."""

    broker_id: int
    broker_epoch: int
    kind: str
    name: str
    host: str

    @classmethod
    def of(cls, stream: RelayStream, relayed: pb.GroupRequest) -> "Asker":
        """Return whose request a broker has passed on."""
        principal = relayed.principal
        return cls(stream.broker_id, stream.broker_epoch, principal.kind, principal.name, relayed.client_host)


class _Rights:
    """What a client may describe, under a version of its rights; `topics` of which that is known."""

    __slots__ = ("describable", "latest", "topics", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.topics: frozenset[str] = frozenset()
        self.describable: frozenset[str] = frozenset()
        self.latest: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())

    def visible(self, topics: frozenset[str]) -> frozenset[str]:
        """Return which of some topics, all of which are known, are describable; the same set for the same topics."""
        if self.latest[0] is not topics:
            self.latest = (topics, topics & self.describable)
        return self.latest[1]


class DescribableTopics:
    """What clients may describe.

    Args:
        matched: returns the topics among some that an expression matches.
    """

    def __init__(self, matched: Callable[..., frozenset[str]] = matching) -> None:
        self._matched = matched
        self._rights: OrderedDict[Asker, _Rights] = OrderedDict()
        self._matches: OrderedDict[str, tuple[int, frozenset[str]]] = OrderedDict()
        self._waiting = 0

    def matches(self, shard: GroupShard, request: GroupRequest) -> frozenset[str] | None:
        """Return which topics a member's expression matches that sends a heartbeat; None if it has none.

        Raises:
            InvalidRegularExpression: the expression is none.
        """
        message = request.message
        pattern = getattr(message, "subscribed_topic_regex", None)
        if pattern is None:
            group = shard.groups.get(message.group_id)
            member = group.members.get(message.member_id) if isinstance(group, ConsumerGroup) else None
            pattern = None if member is None else member.subscribed_topic_regex
        if not pattern or message.member_epoch < 0:
            return None
        revision = shard.topic_names_revision
        known = self._matches.get(pattern)
        if known is None or known[0] != revision:
            known = self._matches[pattern] = (revision, self._matched(pattern, shard.cluster_state.topics))
            _bound(self._matches, MATCHES_MAX)
        return known[1]

    def visible(self, asker: Asker, version: int, topics: frozenset[str]) -> frozenset[str] | None:
        """Return which topics a client may describe, None if that is not known of all of them."""
        rights = self._rights.get(asker)
        if rights is None or rights.version != version or not topics <= rights.topics:
            return None
        self._rights.move_to_end(asker)
        return rights.visible(topics)

    async def ask(self, stream: RelayStream, asker: Asker, version: int, topics: frozenset[str]) -> frozenset[str]:
        """Return which topics a client may describe, and remember it.

        Raises:
            RightsUnknown: the broker does not say, or too many heartbeats wait for that already.
            StreamClosed: the broker is gone.
        """
        if self._waiting >= WAITING_MAX:
            raise RightsUnknown(f"{WAITING_MAX} heartbeats wait for the rights of their clients")
        question = pb.TopicRightsQuestion(client_host=asker.host, topics=sorted(topics))
        question.principal.kind, question.principal.name = asker.kind, asker.name
        self._waiting += 1
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                answer = await stream.ask_rights(question)
        except TimeoutError:
            raise RightsUnknown(f"broker {stream.broker_id} does not say what its client may describe") from None
        finally:
            self._waiting -= 1
        rights = self._rights.get(asker)
        if rights is None or rights.version != version:
            rights = self._rights[asker] = _Rights(version)
            _bound(self._rights, CLIENTS_MAX)
        rights.topics |= topics
        rights.describable = (rights.describable - topics) | (topics & frozenset(answer.describable))
        rights.latest = (frozenset(), frozenset())
        return rights.visible(topics)


def _bound(table: "OrderedDict[Asker, _Rights] | OrderedDict[str, tuple[int, frozenset[str]]]", most: int) -> None:
    while len(table) > most:
        table.popitem(last=False)
