"""WriteTxnMarkers (key 27): end transactions in partitions that this broker leads.

The coordinators of this cluster do so over their streams. Administrators end hanging transactions by it (KIP-664).
"""

from ottla_broker.broker import Broker, Request
from ottla_broker.group_requests import refusal
from ottla_broker.groups.marker_writing import MarkerForPartitions
from ottla_broker.groups.routing import check_transactions
from ottla_broker.outcome import Parts
from ottla_core.errors import KafkaError
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.control_records import TransactionMarker
from ottla_core.wire.conversion import item_type, message_of


async def handle(broker: Broker, request: Request) -> Parts:
    """Write every marker into all its partitions; each partition is answered on its own."""
    message = request.message
    try:
        check_transactions(broker.state)
    except KafkaError as error:
        return request.respond(refusal(request, message, error))
    assert broker.groups.markers is not None
    markers = [
        MarkerForPartitions(
            marker=TransactionMarker(
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                is_commit=each.transaction_result,
                coordinator_epoch=each.coordinator_epoch,
            ),
            transaction_version=getattr(each, "transaction_version", 0),
            partitions=[
                TopicPartition(topic.name, index) for topic in each.topics for index in topic.partition_indexes
            ],
        )
        for each in message.markers
    ]
    codes = await broker.groups.markers.write(markers, broker.groups.ask_shard, are_clients=True)
    marker_type = item_type(request.codec.response_type, "markers")
    topic_type = item_type(marker_type, "topics")
    partition_type = item_type(topic_type, "partitions")
    results = []
    for each, own in zip(message.markers, codes, strict=True):
        rest = iter(own)
        topics = tuple(
            message_of(
                topic_type,
                name=topic.name,
                partitions=tuple(
                    message_of(partition_type, partition_index=index, error_code=next(rest))
                    for index in topic.partition_indexes
                ),
            )
            for topic in each.topics
        )
        results.append(message_of(marker_type, producer_id=each.producer_id, topics=topics))
    return request.respond(message_of(request.codec.response_type, markers=tuple(results)))
