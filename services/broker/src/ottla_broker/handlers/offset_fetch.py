"""OffsetFetch (key 9): how far groups have come; one group in older versions, several from version 8 on (KIP-709)."""

from ottla_broker.broker import Broker, Request
from ottla_broker.group_requests import relay, relay_several
from ottla_broker.groups.split_requests import GroupLists
from ottla_broker.outcome import Outcome

FIRST_BATCHED_VERSION = 8
GROUPS = GroupLists(requested="groups", answered="groups")


def handle(broker: Broker, request: Request) -> Outcome:
    """Have each group's coordinator tell its offsets."""
    if request.version < FIRST_BATCHED_VERSION:
        return relay(broker, request)
    return relay_several(broker, request, GROUPS)
