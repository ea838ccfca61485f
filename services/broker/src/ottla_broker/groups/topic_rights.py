"""Which topics a client may describe, as coordinators ask for members that subscribe by a regular expression.

A coordinator is not told what clients may do, and does not ask for members that name their topics: the broker has
looked at each name. A member with an expression is to be given no topic that it may not see. For such a member the
coordinator asks the broker by which the heartbeat came about the topics that match, and anew when rights change.
"""

from collections.abc import Callable
from typing import NamedTuple

from ottla_core.principal import Principal
from ottla_core.slices import in_slices
from ottla_proto.gen.ottla import group_relay_pb2 as pb

MayDescribe = Callable[[Principal, str, str], bool]
"""Says whether a principal, at an address, may describe a topic."""


class RelayedClient(NamedTuple):
    """Whose request is passed on.

    Attributes:
        principal: who the client is.
        rights_version: another number whenever the rights of clients may have changed.
    """

    principal: Principal
    rights_version: int


class TopicRights:
    """Answers coordinators.

    Args:
        may_describe: asks the authorizer.
    """

    def __init__(self, may_describe: MayDescribe) -> None:
        self._may_describe = may_describe

    async def answer(self, question: pb.TopicRightsQuestion) -> pb.TopicRights:
        """Return which topics of a question its client may describe, judged in slices."""
        principal = Principal(question.principal.kind, question.principal.name)
        address = question.client_host.removeprefix("/")
        judged = await in_slices((topic, self._may_describe(principal, address, topic)) for topic in question.topics)
        return pb.TopicRights(describable=[topic for topic, may in judged if may])
