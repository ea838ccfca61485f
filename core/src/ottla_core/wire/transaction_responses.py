"""The responses that refuse requests about transactions, and the errors that older clients understand. Pure.

`group_responses.error_response` makes the whole responses, of these APIs as well.

Source: `getErrorResponse` of Kafka's request classes; what older clients are told, the handlers of KafkaApis.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from ottla_core.wire.conversion import item_type, message_of

INIT_PRODUCER_ID = 22
ADD_PARTITIONS_TO_TXN = 24
ADD_OFFSETS_TO_TXN = 25
END_TXN = 26
WRITE_TXN_MARKERS = 27
TXN_OFFSET_COMMIT = 28
DESCRIBE_TRANSACTIONS = 65
LIST_TRANSACTIONS = 66

FIRST_BATCHED_ADD_PARTITIONS = 4
"""The version from which on one AddPartitionsToTxn is about several transactions, and comes from brokers only."""
FIRST_IMPLICIT_TXN_OFFSET_COMMIT = 5
"""The version from which on TxnOffsetCommit adds the group's partition to the transaction itself (KIP-890)."""
FIRST_IMPLICIT_PRODUCE = 12
"""The version from which on Produce adds its partitions to the transaction itself (KIP-890)."""
FIRST_EPOCH_BUMPING_END_TXN = 5
"""The version from which on EndTxn answers with the epoch for the next transaction (KIP-890)."""

NONE = -1
NO_TIME = datetime.fromtimestamp(0, UTC)

_FENCED = ErrorCode.producer_fenced
_UNDERSTOOD_BEFORE: Mapping[tuple[int, ErrorCode], tuple[int, ErrorCode]] = {
    (INIT_PRODUCER_ID, _FENCED): (4, ErrorCode.invalid_producer_epoch),
    (ADD_PARTITIONS_TO_TXN, _FENCED): (2, ErrorCode.invalid_producer_epoch),
    (ADD_OFFSETS_TO_TXN, _FENCED): (2, ErrorCode.invalid_producer_epoch),
    (END_TXN, _FENCED): (2, ErrorCode.invalid_producer_epoch),
    (TXN_OFFSET_COMMIT, ErrorCode.coordinator_load_in_progress): (2, ErrorCode.coordinator_not_available),
}
"""By API and error, the first version whose clients know the error, and what the clients before it are told."""

Values = Mapping[str, Any]
Place = Callable[[type[Entity], int, Any, Values], Values]


def understood_code(api_key: int, api_version: int, code: ErrorCode) -> ErrorCode:
    """Return an error as clients of a version of an API about transactions know it."""
    instead = _UNDERSTOOD_BEFORE.get((api_key, code))
    return instead[1] if instead is not None and api_version < instead[0] else code


def _at_top(_response: type[Entity], _version: int, _message: Any, error: Values) -> Values:
    return error


def _no_producer(_response: type[Entity], _version: int, _message: Any, error: Values) -> Values:
    return {"producer_id": NONE, "producer_epoch": NONE, **error}


def _added(response: type[Entity], version: int, message: Any, error: Values) -> Values:
    if version >= FIRST_BATCHED_ADD_PARTITIONS:
        return error
    topic_type = item_type(response, "results_by_topic_v3_and_below")
    partition_type = item_type(topic_type, "results_by_partition")
    topics = tuple(
        message_of(
            topic_type,
            name=topic.name,
            results_by_partition=tuple(
                message_of(partition_type, partition_index=index, partition_error_code=error["error_code"])
                for index in topic.partitions
            ),
        )
        for topic in message.v3_and_below_topics
    )
    return {"results_by_topic_v3_and_below": topics}


def _committed(response: type[Entity], _version: int, message: Any, error: Values) -> Values:
    topic_type = item_type(response, "topics")
    partition_type = item_type(topic_type, "partitions")
    return {
        "topics": tuple(
            message_of(
                topic_type,
                name=topic.name,
                partitions=tuple(
                    message_of(partition_type, partition_index=partition.partition_index, **error)
                    for partition in topic.partitions
                ),
            )
            for topic in message.topics
        )
    }


def _marked(response: type[Entity], _version: int, message: Any, error: Values) -> Values:
    marker_type = item_type(response, "markers")
    topic_type = item_type(marker_type, "topics")
    partition_type = item_type(topic_type, "partitions")
    return {
        "markers": tuple(
            message_of(
                marker_type,
                producer_id=marker.producer_id,
                topics=tuple(
                    message_of(
                        topic_type,
                        name=topic.name,
                        partitions=tuple(
                            message_of(partition_type, partition_index=index, **error)
                            for index in topic.partition_indexes
                        ),
                    )
                    for topic in marker.topics
                ),
            )
            for marker in message.markers
        )
    }


def _described(response: type[Entity], _version: int, message: Any, error: Values) -> Values:
    state_type = item_type(response, "transaction_states")
    states = tuple(
        message_of(state_type, transactional_id=each, transaction_start_time=NO_TIME, **error)
        for each in message.transactional_ids
    )
    return {"transaction_states": states}


PLACES: Mapping[int, Place] = {
    INIT_PRODUCER_ID: _no_producer,
    ADD_PARTITIONS_TO_TXN: _added,
    ADD_OFFSETS_TO_TXN: _at_top,
    END_TXN: _no_producer,
    WRITE_TXN_MARKERS: _marked,
    TXN_OFFSET_COMMIT: _committed,
    DESCRIBE_TRANSACTIONS: _described,
    LIST_TRANSACTIONS: _at_top,
}
"""By API, what puts an error where its responses have it."""
