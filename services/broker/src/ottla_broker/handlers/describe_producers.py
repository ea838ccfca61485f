"""DescribeProducers (key 61): the producers that a partition remembers, and where their open transactions begin.

Any replica answers for itself, as in Kafka: clients ask the leader, or the broker that they are told to (KIP-664).
Of a partition that follows another cluster no transaction is told as open. Its coordinator is the source's, so it
would seem to hang to whoever compares with the coordinators here, and nobody could end it.
"""

from kio.schema.describe_producers.v0.response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId
from kio.static.primitive import i32, i64

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.log.producers.producer_state import NO_TRANSACTION
from ottla_broker.outcome import Parts
from ottla_broker.partition import Partition
from ottla_core.errors import KafkaError


def handle(broker: Broker, request: Request) -> Parts:
    """Answer for each partition on its own."""
    topics = tuple(
        TopicResponse(
            name=topic.name, partitions=tuple(_answer(broker, topic.name, index) for index in topic.partition_indexes)
        )
        for topic in request.message.topics
    )
    return request.respond(DescribeProducersResponse(throttle_time=NO_THROTTLE, topics=topics))


def _answer(broker: Broker, topic: str, index: int) -> PartitionResponse:
    try:
        producers = _active_producers(broker.partitions.replica_of(topic, index))
    except KafkaError as refused:
        return PartitionResponse(
            partition_index=i32(index), error_code=refused.code, error_message=refused.message, active_producers=()
        )
    return PartitionResponse(partition_index=i32(index), error_code=ErrorCode.none, active_producers=producers)


def _active_producers(partition: Partition) -> tuple[ProducerState, ...]:
    is_linked = partition.state.link is not None
    return tuple(
        ProducerState(
            producer_id=ProducerId(entry.producer_id),
            producer_epoch=i32(entry.producer_epoch),
            last_sequence=i32(entry.last_sequence),
            last_timestamp=i64(entry.last_timestamp),
            coordinator_epoch=i32(entry.coordinator_epoch),
            current_txn_start_offset=i64(NO_TRANSACTION if is_linked else entry.current_transaction_first_offset),
        )
        for entry in partition.log.active_producers()
    )
