"""DeleteGroups (key 42): groups without members are removed, their offsets with them."""

from ottla_broker.broker import Broker, Request
from ottla_broker.groups.group_lists import GroupLists
from ottla_broker.groups.group_requests import relay_several
from ottla_broker.outcome import Outcome

GROUPS = GroupLists(requested="groups_names", answered="results")


def handle(broker: Broker, request: Request) -> Outcome:
    """Have each group's coordinator delete it."""
    return relay_several(broker, request, GROUPS)
