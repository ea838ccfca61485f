"""DeleteTopics (key 20): forwarded to the controller; topics are named by name or, from version 6 on, by id.

A topic is told to the controller by what the client's right was asked by, and by nothing else. A client that may not
delete all topics is told of a topic which this broker does not see yet that there is none: the controller, which may
see it, asks nobody.

Source: Kafka's ControllerApis.deleteTopics.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
from kio.schema.types import TopicName

from ottla_broker.authorization import denial
from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.outcome import Parts
from ottla_broker.quotas.mutations import REFUSAL, admitted
from ottla_core.acls import AclOperation, ResourceKind
from ottla_core.cluster.controller_rpc.controller_api import DeletedTopic, TopicReference
from ottla_core.errors import InvalidRequest, KafkaError, UnknownTopicId, UnknownTopicOrPartition
from ottla_core.kafka_uuid import ZERO_UUID

FIRST_VERSION_BY_ID = 6
FIRST_STRICT_VERSION = 5


async def handle(broker: Broker, request: Request) -> Parts:
    """Have the controller delete the topics; their logs go when the cluster state arrives here."""
    message = request.message
    results: list[DeletedTopic] = []
    allowed = [
        reference
        for reference in _valid(_references(request.version, message), results)
        if _is_allowed(broker, request, reference, results)
    ]
    timeout_s = message.timeout.total_seconds()
    wanted, refused = admitted(
        broker.quotas,
        request.connection,
        request.header.client_id,
        _once_each(broker, allowed, results),
        lambda topic: _partition_count(broker, topic),
        is_strict=request.version >= FIRST_STRICT_VERSION,
    )
    results += [_failed(reference, REFUSAL) for reference in refused]
    if not wanted:
        return _answer(request, results)
    try:
        results += await broker.controller.delete_topics(wanted, timeout_s=timeout_s)
        await broker.reconciler.wait_reached(broker.state.revision, timeout_s)
    except KafkaError as error:
        results += [_failed(reference, error) for reference in wanted]
    return _answer(request, results)


def _answer(request: Request, results: Sequence[DeletedTopic]) -> Parts:
    responses = tuple(
        DeletableTopicResult(
            name=None if result.name is None else TopicName(result.name),
            topic_id=result.topic_id,
            error_code=result.error_code,
            error_message=result.error_message,
        )
        for result in results
    )
    return request.respond(DeleteTopicsResponse(throttle_time=NO_THROTTLE, responses=responses))


def _references(version: int, message: Any) -> list[TopicReference]:
    if version < FIRST_VERSION_BY_ID:
        return [TopicReference(name=name) for name in message.topic_names]
    return [TopicReference(name=topic.name, topic_id=topic.topic_id) for topic in message.topics]


def _valid(references: Sequence[TopicReference], results: list[DeletedTopic]) -> Iterator[TopicReference]:
    """Yield what names a topic in one way and once; of the rest it is said in `results` what is wrong."""
    times = Counter(references)
    for reference in times:
        if reference.name is None and reference.topic_id is None:
            problem = "Neither topic name nor id were specified."
        elif reference.name is not None and reference.topic_id is not None:
            problem = "You may not specify both topic name and topic id."
        elif times[reference] > 1:
            problem = "Duplicate topic name." if reference.topic_id is None else "Duplicate topic id."
        else:
            yield reference
            continue
        results.append(_failed(reference, InvalidRequest(problem)))


def _is_allowed(broker: Broker, request: Request, reference: TopicReference, results: list[DeletedTopic]) -> bool:
    """Return whether the client may have the topic deleted; if not, `results` says why, as far as it may know."""

    def permits(operation: AclOperation, topic: str) -> bool:
        return broker.authorization.permits(request, operation, ResourceKind.TOPIC, topic)

    if broker.authorization.permits_on_cluster(request, AclOperation.DELETE, is_listing=True):
        return True
    if reference.name is not None:
        if permits(AclOperation.DELETE, reference.name):
            return True
        is_known = reference.name in broker.state.topics
        if not is_known and permits(AclOperation.DESCRIBE, reference.name):
            results.append(
                _failed(reference, UnknownTopicOrPartition("This server does not host this topic-partition."))
            )
        else:
            results.append(_failed(reference, denial(ResourceKind.TOPIC)))
        return False
    known = _known_topic(broker, reference)
    if known is None:
        results.append(_failed(reference, UnknownTopicId("This server does not host this topic ID.")))
        return False
    if permits(AclOperation.DELETE, known.name):
        return True
    shown = known.name if permits(AclOperation.DESCRIBE, known.name) else None
    results.append(_failed(TopicReference(name=shown, topic_id=reference.topic_id), denial(ResourceKind.TOPIC)))
    return False


def _once_each(
    broker: Broker, references: Sequence[TopicReference], results: list[DeletedTopic]
) -> list[TopicReference]:
    """Return the references without those of topics that are named by name and by id."""
    known = [_known_topic(broker, reference) for reference in references]
    times = Counter(topic.id for topic in known if topic is not None)
    left: list[TopicReference] = []
    for reference, topic in zip(references, known, strict=True):
        if topic is not None and times[topic.id] > 1:
            problem = InvalidRequest("The provided topic name maps to an ID that was already supplied.")
            results.append(_failed(TopicReference(name=reference.name, topic_id=topic.id), problem))
        else:
            left.append(reference)
    return left


def _known_topic(broker: Broker, reference: TopicReference) -> Any:
    """Return the topic as this broker sees it, or None."""
    if reference.name is not None:
        return broker.state.topics.get(reference.name)
    topic_id: UUID | None = reference.topic_id
    return None if topic_id is None else broker.state.topics_by_id.get(topic_id)


def _partition_count(broker: Broker, reference: TopicReference) -> int:
    """Return how many partitions would go; none of a topic that is not there."""
    known = _known_topic(broker, reference)
    return 0 if known is None else len(known.partitions)


def _failed(reference: TopicReference, error: KafkaError) -> DeletedTopic:
    return DeletedTopic(
        name=reference.name,
        topic_id=reference.topic_id or ZERO_UUID,
        error_code=error.code,
        error_message=error.message,
    )
