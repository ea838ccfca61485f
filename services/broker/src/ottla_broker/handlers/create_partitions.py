"""CreatePartitions (key 37): forwarded to the controller; a topic's partition count can only grow."""

from typing import Any

from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kio.schema.types import TopicName

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.outcome import Parts
from ottla_core.cluster.controller_rpc.controller_api import GrownTopic, NewPartitions
from ottla_core.errors import KafkaError


async def handle(broker: Broker, request: Request) -> Parts:
    """Have the controller add partitions, and wait until this broker has opened its logs of them."""
    message = request.newest()
    timeout_s = message.timeout.total_seconds()
    try:
        results = await broker.controller.create_partitions(
            [_new_partitions(topic) for topic in message.topics],
            validate_only=message.validate_only,
            timeout_s=timeout_s,
        )
        await broker.reconciler.wait_reached(broker.state.revision, timeout_s)
    except KafkaError as error:
        results = [
            GrownTopic(topic=topic.name, error_code=error.code, error_message=error.message)
            for topic in message.topics
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


def _new_partitions(topic: Any) -> NewPartitions:
    assignments = tuple(tuple(assignment.broker_ids) for assignment in topic.assignments or ())
    return NewPartitions(topic=topic.name, total_count=topic.count, assignments=assignments)
