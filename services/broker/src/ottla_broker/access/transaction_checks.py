"""What the APIs of transactions ask of a client's rights, where the handler does not ask for each thing itself.

Source: Kafka's KafkaApis; TWO_PHASE_COMMIT, KIP-939.
"""

from dataclasses import replace
from typing import Any, Final

from ottla_broker.access.checks import itself, on_each, refused
from ottla_broker.access.partial_requests import PermittedPart
from ottla_broker.authorization import denial
from ottla_broker.broker import Broker, Request
from ottla_core.acls import AclOperation, ResourceKind

_ID: Final = ResourceKind.TRANSACTIONAL_ID


def init_producer_id(broker: Broker, request: Request) -> PermittedPart | None:
    """Take WRITE on the transactional id; without one, on any topic, or IDEMPOTENT_WRITE on the cluster (KIP-679).

    Who prepares commits for an outside coordinator needs TWO_PHASE_COMMIT on the transactional id as well.
    """
    authorization, message = broker.authorization, request.message
    transactional_id = message.transactional_id
    if transactional_id is not None:
        wanted = [AclOperation.WRITE]
        if getattr(message, "enable2_pc", False):
            wanted.append(AclOperation.TWO_PHASE_COMMIT)
        if all(authorization.permits(request, each, _ID, transactional_id) for each in wanted):
            return None
        return refused(request, denial(_ID))
    if authorization.permits_on_cluster(
        request, AclOperation.IDEMPOTENT_WRITE, is_listing=True
    ) or authorization.permits_some(request, AclOperation.WRITE, ResourceKind.TOPIC):
        return None
    return refused(request, denial(ResourceKind.CLUSTER))


def end_txn(broker: Broker, request: Request) -> PermittedPart | None:
    """Take WRITE on the transactional id."""
    if broker.authorization.permits(request, AclOperation.WRITE, _ID, request.message.transactional_id):
        return None
    return refused(request, denial(_ID))


def add_offsets_to_txn(broker: Broker, request: Request) -> PermittedPart | None:
    """Take WRITE on the transactional id, and READ on the group."""
    authorization, message = broker.authorization, request.message
    if not authorization.permits(request, AclOperation.WRITE, _ID, message.transactional_id):
        return refused(request, denial(_ID))
    if not authorization.permits(request, AclOperation.READ, ResourceKind.GROUP, message.group_id):
        return refused(request, denial(ResourceKind.GROUP))
    return None


def describe_transactions(broker: Broker, request: Request) -> PermittedPart | None:
    """Take DESCRIBE on each transactional id, and tell of the topics that the client may describe."""
    permitted = _DESCRIBE_TRANSACTIONS(broker, request)
    authorization = broker.authorization

    def seen(topics: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            each
            for each in topics
            if authorization.permits(request, AclOperation.DESCRIBE, ResourceKind.TOPIC, each.topic, is_listing=True)
        )

    def revise(response: Any) -> Any:
        states = tuple(replace(each, topics=seen(each.topics)) for each in response.transaction_states)
        return replace(response, transaction_states=states)

    return replace(permitted or PermittedPart(request.message), revise=revise)


_DESCRIBE_TRANSACTIONS: Final = on_each("transactional_ids", AclOperation.DESCRIBE, _ID, itself)
