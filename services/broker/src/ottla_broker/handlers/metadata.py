"""Metadata (key 3): the live brokers, and topics with their partitions and leaders.

Asking for an unknown topic by name creates it where both the client and `auto.create.topics.enable` allow that.
A response may hold every partition of the cluster, and a request name tens of thousands of topics: both are worked
off in slices, from one snapshot of the cluster state.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_broker.authorization import denial
from ottla_broker.broker import Broker, Request
from ottla_broker.groups.coordinator_topics import COORDINATOR_TOPICS
from ottla_broker.listener_view import ListenerView
from ottla_broker.outcome import Answer, Outcome, Parts
from ottla_broker.quotas.mutations import admitted
from ottla_core.acls import AclOperation, ResourceKind
from ottla_core.authorized_operations import NOT_ASKED
from ottla_core.cluster.controller_rpc.controller_api import NewTopic
from ottla_core.cluster.state.model import ClusterState, PartitionState, Topic
from ottla_core.errors import InvalidTopic, KafkaError
from ottla_core.kafka_uuid import ZERO_UUID
from ottla_core.observe.request_errors import count_error
from ottla_core.random_ids import random_uuid
from ottla_core.shards import INTERNAL_TOPICS, TRANSACTION_TOPIC
from ottla_core.slices import Pace, in_slices, started
from ottla_core.topic_name import check_topic_name
from ottla_core.wire.metadata_response import BrokerMetadata, MetadataEncoder, TopicMetadata
from ottla_core.wire.primitives import INT32

AUTO_CREATE_TIMEOUT_SECONDS = 2.0
"""How long creating topics may hold up what the client has sent behind; then it is told to ask again.

It holds for a whole request: one of a mebibyte names tens of thousands of topics.
"""


TOPICS_CREATED_AT_ONCE_MAX: Final = 250
FIRST_VERSION_WITH_THROTTLE_TIME = 3
METADATA_KEY = 3
FIRST_VERSION_WITH_LISTENER_NOT_FOUND: Final = 6


class _Wanted(NamedTuple):
    """A topic that was asked for, by name or, where that is None, by id."""

    name: str | None
    id: UUID


def handle(broker: Broker, request: Request) -> Outcome:
    """Answer from the cluster state, after creating what was asked for and may be created."""
    return started(_handle(broker, request))


async def _handle(broker: Broker, request: Request) -> Answer | Awaitable[Answer]:
    topics = request.message.topics
    if topics is None or (request.version == 0 and not topics):
        return await _respond(broker, request, None, {})
    wanted: dict[_Wanted, None] = {}
    absent: dict[str, None] = {}
    creates = _creates(broker, request)
    state, pace = broker.state, Pace()
    denied: dict[str, ErrorCode] = {}
    for topic in topics:
        named = _Wanted(topic.name, getattr(topic, "topic_id", None) or ZERO_UUID)
        wanted[named] = None
        if creates and named.name is not None and named.name not in state.topics and _may_exist(named.name, state):
            if _may_create(broker, request, named.name):
                absent[named.name] = None
            else:
                denied[named.name] = denial(ResourceKind.TOPIC).code
        if pace.is_over:
            await pace.rest()
    if absent:
        return _create_and_respond(broker, request, wanted, absent, denied)
    return await _respond(broker, request, wanted, denied)


def _may_see(broker: Broker, request: Request, topic: str) -> bool:
    return broker.authorization.permits(request, AclOperation.DESCRIBE, ResourceKind.TOPIC, topic)


def _may_create(broker: Broker, request: Request, topic: str) -> bool:
    """Return whether a client may have a topic created by asking for it; it has to be allowed to see it as well."""
    authorization = broker.authorization
    return authorization.permits(request, AclOperation.DESCRIBE, ResourceKind.TOPIC, topic, is_listing=True) and (
        authorization.permits_on_cluster(request, AclOperation.CREATE, is_listing=True)
        or authorization.permits(request, AclOperation.CREATE, ResourceKind.TOPIC, topic)
    )


def _creates(broker: Broker, request: Request) -> bool:
    """Return whether topics that are not there are to be created; clients could not say no before version 4."""
    return getattr(request.message, "allow_auto_topic_creation", True) and broker.config.auto_create_topics_enable


def _may_exist(name: str, state: ClusterState) -> bool:
    """Return whether there may be a topic of a name; that of transactions has to be known to all processes."""
    return _is_valid(name) and (name != TRANSACTION_TOPIC or state.features.has_transactions)


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except InvalidTopic:
        return False
    return True


async def _create_and_respond(
    broker: Broker,
    request: Request,
    wanted: Collection[_Wanted],
    absent: Collection[str],
    denied: Mapping[str, ErrorCode],
) -> Parts:
    """Create topics for as long as a request may take for that, then respond; the client asks again for the rest.

    The rest is also what the client's `controller_mutation_rate` does not admit at present.
    """
    deadline = broker.clock.monotonic() + AUTO_CREATE_TIMEOUT_SECONDS
    failed = dict.fromkeys(absent, ErrorCode.leader_not_available)
    admitted_names, _ = admitted(
        broker.quotas,
        request.connection,
        request.header.client_id,
        list(absent),
        lambda name: _new_topic(broker, name).partition_count,
        is_strict=True,
    )
    names = iter(admitted_names)
    while some := list(islice(names, TOPICS_CREATED_AT_ONCE_MAX)):
        timeout_s = deadline - broker.clock.monotonic()
        if timeout_s <= 0:
            break
        errors = await _create(broker, some, timeout_s)
        for name in some:
            del failed[name]
        failed |= errors
    return await _respond(broker, request, wanted, {**failed, **denied})


async def _create(broker: Broker, names: Sequence[str], timeout_s: float) -> dict[str, ErrorCode]:
    """Create topics, wait until their logs are there, and return the errors that there were."""
    new_topics = [_new_topic(broker, name) for name in dict.fromkeys(names)]
    try:
        results = await broker.controller.create_topics(new_topics, timeout_s=timeout_s)
        await broker.reconciler.wait_reached(broker.state.revision, timeout_s)
    except KafkaError:
        return dict.fromkeys(names, ErrorCode.leader_not_available)
    return {result.name: _retriable(result.error_code) for result in results if result.error_code != ErrorCode.none}


def _new_topic(broker: Broker, name: str) -> NewTopic:
    if (of_coordinators := COORDINATOR_TOPICS.get(name)) is not None:
        return of_coordinators.new(broker.config)
    return NewTopic(
        name=name,
        topic_id=random_uuid(),
        partition_count=broker.config.num_partitions,
        replication_factor=broker.config.default_replication_factor,
    )


def _retriable(code: ErrorCode) -> ErrorCode:
    """Return what to tell a client whose topic could not be created just now: to ask again."""
    transient = code in {ErrorCode.topic_already_exists, ErrorCode.not_controller, ErrorCode.request_timed_out}
    return ErrorCode.leader_not_available if transient else code


async def _respond(
    broker: Broker, request: Request, wanted: Collection[_Wanted] | None, failed: Mapping[str, ErrorCode]
) -> Parts:
    """Return the response about some topics, or about all."""
    state = broker.state
    authorization = broker.authorization
    listed = await _listed(broker, request, state) if wanted is None else ()
    encoder = MetadataEncoder(request.version)
    count = len(listed) if wanted is None else len(wanted)
    pieces = [request.response_header(), _beginning(broker, request, encoder, state, count)]
    tells_operations = _asks_for(request, "topic")

    def operations_on(topic: str) -> int:
        return authorization.operations_on(request, ResourceKind.TOPIC, topic) if tells_operations else NOT_ASKED

    view = ListenerView(
        state,
        request.listener,
        listener_not_found=request.version >= FIRST_VERSION_WITH_LISTENER_NOT_FOUND,
    )
    pace = Pace()

    def may_see(topic: str) -> bool:
        return not authorization.is_on or _may_see(broker, request, topic)

    described = (
        ((_description(topic, operations_on), topic.partitions) for topic in listed)
        if wanted is None
        else _described(state, wanted, failed, operations_on, may_see)
    )
    for description, partitions in described:
        if description.error_code:
            count_error(METADATA_KEY, description.error_code)
        pieces.append(encoder.topic_beginning(description, len(partitions)))
        for partition in partitions:
            pieces.append(_encoded(encoder, partition, view))
            if pace.is_over:
                await pace.rest()
        pieces.append(encoder.topic_end(description))
        if pace.is_over:
            await pace.rest()
    cluster_operations = NOT_ASKED
    if _asks_for(request, "cluster"):
        cluster_operations = authorization.operations_on_cluster(request)
    pieces.append(encoder.end(cluster_operations=cluster_operations))
    throttle_ms = request.throttle_ms()
    if throttle_ms and request.version >= FIRST_VERSION_WITH_THROTTLE_TIME:
        pieces[1] = INT32.pack(throttle_ms) + pieces[1][INT32.size :]  # of what is said first
    body = b"".join(pieces)
    return [INT32.pack(len(body)) + body]


def _asks_for(request: Request, scope: str) -> bool:
    """Return whether the client wants to know what it may do; versions without the field are not asked."""
    return bool(getattr(request.message, f"include_{scope}_authorized_operations", False))


def _beginning(
    broker: Broker, request: Request, encoder: MetadataEncoder, state: ClusterState, topic_count: int
) -> bytes:
    brokers = [
        BrokerMetadata(member.id, endpoint.host, endpoint.port, member.rack)
        for member, endpoint in broker.live_brokers(request.listener)
    ]
    return encoder.beginning(brokers, cluster_id=state.cluster_id, controller_id=broker.id, topic_count=topic_count)


async def _listed(broker: Broker, request: Request, state: ClusterState) -> Sequence[Topic]:
    """Return the topics that a client may see."""
    authorization = broker.authorization
    if not authorization.is_on or authorization.is_super_user(request.principal):
        return tuple(state.topics.values())

    def may_see(topic: Topic) -> bool:
        return authorization.permits(request, AclOperation.DESCRIBE, ResourceKind.TOPIC, topic.name, is_listing=True)

    seen = await in_slices((topic, may_see(topic)) for topic in state.topics.values())
    return tuple(topic for topic, is_seen in seen if is_seen)


def _described(
    state: ClusterState,
    wanted: Collection[_Wanted],
    failed: Mapping[str, ErrorCode],
    operations_on: Callable[[str], int],
    may_see: Callable[[str], bool],
) -> Iterator[tuple[TopicMetadata, Sequence[PartitionState]]]:
    """Yield the topics of a response, with their partitions."""
    for name, topic_id in wanted:
        found = state.topics_by_id.get(topic_id) if name is None else state.topics.get(name)
        known = name if found is None else found.name
        if known is not None and not may_see(known):
            # A name looks alike, whether it is there or not; an id is no secret, as nobody can guess one.
            error = denial(ResourceKind.TOPIC).code
            yield TopicMetadata(error, name, topic_id if name is None else None), ()
        elif found is not None:
            yield _description(found, operations_on), found.partitions
        elif name is None:
            yield TopicMetadata(ErrorCode.unknown_topic_id, None, topic_id), ()
        elif not _is_valid(name):
            yield TopicMetadata(ErrorCode.invalid_topic_exception, name, None, operations=operations_on(name)), ()
        else:
            error = failed.get(name, ErrorCode.unknown_topic_or_partition)
            yield TopicMetadata(error, name, None, operations=operations_on(name)), ()


def _description(topic: Topic, operations_on: Callable[[str], int]) -> TopicMetadata:
    is_internal = topic.name in INTERNAL_TOPICS
    return TopicMetadata(ErrorCode.none, topic.name, topic.id, is_internal, operations_on(topic.name))


def _encoded(encoder: MetadataEncoder, partition: PartitionState, view: ListenerView) -> bytes:
    error = view.error_of(partition)
    if error:
        count_error(METADATA_KEY, error)
    return encoder.partition(
        error,
        partition.index,
        view.leader_of(partition),
        partition.leader_epoch,
        replicas=partition.replicas,
        in_sync=partition.isr,
        offline=view.offline_replicas_of(partition),
    )
