"""DescribeTransactions (key 65): what coordinators know of transactional ids (KIP-664)."""

from ottla_broker.broker import Broker, Request
from ottla_broker.group_requests import relay_several
from ottla_broker.groups.routing import transaction_shard_for
from ottla_broker.groups.split_requests import GroupLists
from ottla_broker.outcome import Outcome

TRANSACTIONS = GroupLists(requested="transactional_ids", answered="transaction_states", name="transactional_id")


def handle(broker: Broker, request: Request) -> Outcome:
    """Have the coordinator of each transactional id tell of it."""
    return relay_several(broker, request, TRANSACTIONS, transaction_shard_for)
