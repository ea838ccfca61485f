"""ListPartitionReassignments (key 46): the partitions whose replicas are being moved (KIP-455).

Every broker knows them from the cluster state: a partition is being reassigned while it has replicas to add or to
remove.
"""

from collections.abc import Iterable
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0.response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.long_responses import respond_in_thread
from ottla_broker.outcome import Outcome, Parts
from ottla_core.cluster.state.model import PartitionState, Topic
from ottla_core.slices import in_slices, started


def handle(broker: Broker, request: Request) -> Outcome:
    """Answer for the wanted partitions, or for all; what does not exist is passed over."""
    return started(_handle(broker, request))


async def _handle(broker: Broker, request: Request) -> Parts:
    wanted = request.newest().topics
    topics = broker.state.topics
    if wanted is None:
        found = await in_slices(_ongoing(topic, topic.partitions) for topic in topics.values())
    else:
        found = await in_slices(
            _ongoing(topics[entry.name], _named(topics[entry.name], entry))
            for entry in wanted
            if entry.name in topics
        )
    ongoing = tuple(topic for topic in found if topic.partitions)
    response = ListPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None, topics=ongoing
    )
    return await respond_in_thread(request, response, sum(len(topic.partitions) for topic in ongoing))


def _named(topic: Topic, entry: Any) -> Iterable[PartitionState]:
    return (topic.partitions[index] for index in entry.partition_indexes if 0 <= index < len(topic.partitions))


def _ongoing(topic: Topic, partitions: Iterable[PartitionState]) -> OngoingTopicReassignment:
    return OngoingTopicReassignment(
        name=TopicName(topic.name),
        partitions=tuple(
            OngoingPartitionReassignment(
                partition_index=i32(partition.index),
                replicas=_broker_ids(partition.replicas),
                adding_replicas=_broker_ids(partition.adding),
                removing_replicas=_broker_ids(partition.removing),
            )
            for partition in partitions
            if partition.adding or partition.removing
        ),
    )


def _broker_ids(ids: Iterable[int]) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(broker_id) for broker_id in ids)
