"""WriteTxnMarkers, for the partition of `__consumer_offsets` that is this shard: transactions have ended.

The marker goes into the log by way of the shard, so that what is pending here becomes offsets, or is dropped, just
where the log says so. Each partition has its own error; of other partitions the shard knows nothing.

Source: `KafkaApis.handleWriteTxnMarkersRequest` and `GroupCoordinatorService.completeTransaction` in Kafka.
"""

from typing import Any

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from ottla_core.errors import KafkaError
from ottla_core.shards import GROUP_TOPIC
from ottla_core.wire.control_records import TransactionMarker
from ottla_core.wire.conversion import item_type, message_of
from ottla_core.wire.transaction_responses import WRITE_TXN_MARKERS
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.offsets.transactions import write_marker
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState

NO_VERSION = 0


def handle(shard: ShardState, request: GroupRequest, turn: Turn) -> None:
    """Write the markers, and answer."""
    response_type = load_response_schema(WRITE_TXN_MARKERS, request.api_version)
    markers = tuple(
        _result(shard, request, turn, marker, item_type(response_type, "markers"))
        for marker in request.message.markers
    )
    turn.answer(request.token, message_of(response_type, markers=markers))


def _result(shard: ShardState, request: GroupRequest, turn: Turn, asked: Any, result_type: type[Entity]) -> Entity:
    topic_type = item_type(result_type, "topics")
    partition_type = item_type(topic_type, "partitions")
    is_ours = any(
        topic.name == GROUP_TOPIC and request.partition in topic.partition_indexes for topic in asked.topics
    )
    own_code = _end(shard, turn, asked) if is_ours else ErrorCode.none
    topics = []
    for topic in asked.topics:
        partitions = []
        for index in topic.partition_indexes:
            code = ErrorCode.unknown_topic_or_partition
            if topic.name == GROUP_TOPIC and index == request.partition:
                code = own_code
            partitions.append(message_of(partition_type, partition_index=index, error_code=code))
        topics.append(message_of(topic_type, name=topic.name, partitions=tuple(partitions)))
    return message_of(result_type, producer_id=asked.producer_id, topics=tuple(topics))


def _end(shard: ShardState, turn: Turn, asked: Any) -> ErrorCode:
    marker = TransactionMarker(
        producer_id=asked.producer_id,
        producer_epoch=asked.producer_epoch,
        is_commit=asked.transaction_result,
        coordinator_epoch=asked.coordinator_epoch,
    )
    try:
        is_new = shard.transaction_producers.check_marker(marker, getattr(asked, "transaction_version", NO_VERSION))
    except KafkaError as error:
        return error.code
    if is_new:
        write_marker(shard, turn, marker)
    return ErrorCode.none
