"""CreatePartitions (key 37): forwarded to the controller; a topic's partition count can only grow."""

from typing import Any

from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kio.schema.types import TopicName

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.outcome import Parts
from ottla_broker.quotas.mutations import REFUSAL, admitted
from ottla_core.cluster.controller_rpc.controller_api import GrownTopic, NewPartitions
from ottla_core.errors import KafkaError

FIRST_STRICT_VERSION = 3


async def handle(broker: Broker, request: Request) -> Parts:
    """Have the controller add partitions, and wait until this broker has opened its logs of them."""
    message = request.newest()
    timeout_s = message.timeout.total_seconds()
    wanted, refused = admitted(
        broker.quotas,
        request.connection,
        request.header.client_id,
        message.topics,
        lambda topic: _added(broker, topic),
        is_strict=request.version >= FIRST_STRICT_VERSION,
    )
    try:
        results = await broker.controller.create_partitions(
            [_new_partitions(topic) for topic in wanted],
            validate_only=message.validate_only,
            timeout_s=timeout_s,
        )
        await broker.reconciler.wait_reached(broker.state.revision, timeout_s)
    except KafkaError as error:
        results = [
            GrownTopic(topic=topic.name, error_code=error.code, error_message=error.message) for topic in wanted
        ]
    results += [
        GrownTopic(topic=topic.name, error_code=REFUSAL.code, error_message=REFUSAL.message) for topic in refused
    ]
    return request.respond(
        CreatePartitionsResponse(
            throttle_time=NO_THROTTLE,
            results=tuple(
                CreatePartitionsTopicResult(
                    name=TopicName(result.topic), error_code=result.error_code, error_message=result.error_message
                )
                for result in results
            ),
        )
    )


def _added(broker: Broker, topic: Any) -> int:
    """Return how many partitions would come; none of a topic that is not there."""
    known = broker.state.topics.get(topic.name)
    return max(0, topic.count - len(known.partitions)) if known is not None else 0


def _new_partitions(topic: Any) -> NewPartitions:
    assignments = tuple(tuple(assignment.broker_ids) for assignment in topic.assignments or ())
    return NewPartitions(topic=topic.name, total_count=topic.count, assignments=assignments)
