"""FindCoordinator (key 10): which broker a group's requests go to.

Clients never meet the group coordinators: any broker passes their requests on (`groups/relay.py`). The broker that is
named is a matter of spreading the groups; all brokers name the same. It is named only while the group's coordinator
can be reached, so that clients wait here, where they know how to. Those that are sent on in vain give up sooner:
librdkafka repeats an OffsetCommit for as long as it finds no coordinator, but tries each that it finds only once.

The first look-up has `__consumer_offsets` created, or `__transaction_state`. There are no share groups. Before the
cluster is at the level of transactions, a client that looks for the coordinator of a transactional id is refused with
the one error that ends the matter for every client: librdkafka asks again and again upon any but failures of
authorization.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3.response import FindCoordinatorResponse as FindCoordinatorResponseV3
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse
from kio.schema.types import BrokerId
from kio.static.primitive import i32

from ottla_broker.broker import Broker, Request
from ottla_broker.groups.errors import CoordinatorNotAvailable, NotCoordinator
from ottla_broker.groups.routing import broker_for, shard_for, transaction_shard_for
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.long_responses import respond_in_thread
from ottla_broker.outcome import Outcome, Parts
from ottla_core.acls import AclOperation, ResourceKind
from ottla_core.cluster.state.model import ClusterState
from ottla_core.errors import InvalidRequest, KafkaError
from ottla_core.slices import in_slices, started
from ottla_core.topic_partition import TopicPartition

FIRST_BATCHED_VERSION = 4
NO_BROKER = BrokerId(-1)
NO_PORT = i32(-1)


class KeyType(IntEnum):
    """What a key names."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


def handle(broker: Broker, request: Request) -> Outcome:
    """Name a live broker for every key that has a coordinator."""
    message = request.message
    key_type = getattr(message, "key_type", KeyType.GROUP)
    if request.version < FIRST_BATCHED_VERSION:
        found = _find(broker, request, key_type, message.key)
        return request.respond(FindCoordinatorResponseV3(throttle_time=NO_THROTTLE, **found))
    return started(_handle_batch(broker, request, key_type, message.coordinator_keys))


async def _handle_batch(broker: Broker, request: Request, key_type: int, keys: Sequence[str]) -> Parts:
    """Answer for all keys, in slices: short keys make thousands in a short frame, and each is a matter of rights."""
    coordinators = await in_slices(Coordinator(key=key, **_find(broker, request, key_type, key)) for key in keys)
    response = FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=coordinators)
    return await respond_in_thread(request, response, len(keys))


def _find(broker: Broker, request: Request, key_type: int, key: str) -> Mapping[str, Any]:
    """Return what the response says of one key."""
    try:
        broker_id = _broker_of(broker, request, key_type, key)
    except KafkaError as error:
        refused = {"error_code": error.code, "error_message": error.message}
        return {"node_id": NO_BROKER, "host": "", "port": NO_PORT, **refused}
    endpoint = next(
        endpoint
        for member, endpoint in broker.live_brokers(request.listener)
        if member.id == broker_id  # it was chosen from these
    )
    return {
        "node_id": BrokerId(broker_id),
        "host": endpoint.host,
        "port": i32(endpoint.port),
        "error_code": ErrorCode.none,
        "error_message": None,
    }


def _broker_of(broker: Broker, request: Request, key_type: int, key: str) -> int:
    """Return the broker to name.

    Raises:
        CoordinatorNotAvailable: nobody coordinates what the key names now.
        TransactionalIdRefused, InvalidRequest: nobody ever will.
        GroupAuthorizationFailed, TransactionalIdAuthorizationFailed: the client may not know.
    """
    shard_of_key: Callable[[ClusterState, str], TopicPartition]
    if key_type == KeyType.TRANSACTION:
        kind, shard_of_key, topic = ResourceKind.TRANSACTIONAL_ID, transaction_shard_for, broker.transaction_topic
    elif key_type == KeyType.GROUP:
        kind, shard_of_key, topic = ResourceKind.GROUP, shard_for, broker.group_topic
    else:
        raise InvalidRequest(f"this cluster has no coordinators of key type {key_type}")
    broker.authorization.check(request, AclOperation.DESCRIBE, kind, key)
    try:
        broker.groups.check_reachable(shard_of_key(broker.state, key))
    except NotCoordinator as error:
        topic.begin()
        raise CoordinatorNotAvailable(error.message) from None
    broker_id = broker_for(key, broker.reachable_brokers(request.listener))
    if broker_id is None:
        raise CoordinatorNotAvailable("no broker is registered")
    return broker_id
