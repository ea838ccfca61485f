"""DeleteTopics (key 20): forwarded to the controller; topics are named by name or, from version 6 on, by id."""

from typing import Any

from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
from kio.schema.types import TopicName

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.outcome import Parts
from ottla_broker.quotas.mutations import REFUSAL, admitted
from ottla_core.cluster.controller_rpc.controller_api import DeletedTopic, TopicReference
from ottla_core.errors import KafkaError
from ottla_core.kafka_uuid import ZERO_UUID

FIRST_VERSION_BY_ID = 6
FIRST_STRICT_VERSION = 5


async def handle(broker: Broker, request: Request) -> Parts:
    """Have the controller delete the topics; their logs go when the cluster state arrives here."""
    message = request.message
    references = _references(request.version, message)
    timeout_s = message.timeout.total_seconds()
    wanted, refused = admitted(
        broker.quotas,
        request.connection,
        request.header.client_id,
        references,
        lambda topic: _partition_count(broker, topic),
        is_strict=request.version >= FIRST_STRICT_VERSION,
    )
    try:
        results = await broker.controller.delete_topics(wanted, timeout_s=timeout_s)
        await broker.reconciler.wait_reached(broker.state.revision, timeout_s)
    except KafkaError as error:
        results = [
            DeletedTopic(
                name=reference.name,
                topic_id=reference.topic_id or ZERO_UUID,
                error_code=error.code,
                error_message=error.message,
            )
            for reference in wanted
        ]
    results += [
        DeletedTopic(
            name=reference.name,
            topic_id=reference.topic_id or ZERO_UUID,
            error_code=REFUSAL.code,
            error_message=REFUSAL.message,
        )
        for reference in refused
    ]
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


def _partition_count(broker: Broker, reference: TopicReference) -> int:
    """Return how many partitions would go; none of a topic that is not there."""
    state = broker.state
    if reference.name:
        known = state.topics.get(reference.name)
    else:
        known = state.topics_by_id.get(reference.topic_id or ZERO_UUID)
    return 0 if known is None else len(known.partitions)


def _references(version: int, message: Any) -> list[TopicReference]:
    if version < FIRST_VERSION_BY_ID:
        return [TopicReference(name=name) for name in message.topic_names]
    return [TopicReference(name=topic.name, topic_id=topic.topic_id) for topic in message.topics]
