"""AddOffsetsToTxn (key 25): make the shard of a group a part of a transaction, before offsets are committed in it."""

from ottla_broker.broker import Broker, Request
from ottla_broker.group_requests import relay_transactional
from ottla_broker.outcome import Outcome


def handle(broker: Broker, request: Request) -> Outcome:
    """Pass the request on to the coordinator of its transactional id, which finds the group's shard itself."""
    return relay_transactional(broker, request, request.message.transactional_id)
