"""ConsumerGroupDescribe (key 69): the state and the members of groups of the consumer protocol (KIP-848)."""

from ottla_broker.broker import Broker, Request
from ottla_broker.groups.group_lists import GroupLists
from ottla_broker.groups.group_requests import relay_several
from ottla_broker.outcome import Outcome

GROUPS = GroupLists(requested="group_ids", answered="groups")


def handle(broker: Broker, request: Request) -> Outcome:
    """Have each group's coordinator describe it."""
    return relay_several(broker, request, GROUPS)
