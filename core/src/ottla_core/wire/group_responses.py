"""The response that refuses a request for a coordinator: the error wherever its API and version keep one. Pure.

Most APIs of groups have one error code for the whole response. Others have one per group, and OffsetCommit and the
older OffsetFetch one per partition, so that the answer has to name all that was asked for.

Clients know only some errors of each API, and give up upon the others. Where an error says no more than that the
coordinator is not ready, an API that does not know it answers with one that makes the client come again.

Sources: `getErrorResponse` of Kafka's request classes; the exception handlers of its GroupCoordinatorService.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from ottla_core.errors import KafkaError
from ottla_core.wire import transaction_responses
from ottla_core.wire.conversion import item_type, message_of

FIND_COORDINATOR = 10
JOIN_GROUP = 11
HEARTBEAT = 12
LEAVE_GROUP = 13
SYNC_GROUP = 14
DESCRIBE_GROUPS = 15
LIST_GROUPS = 16
DELETE_GROUPS = 42
OFFSET_COMMIT = 8
OFFSET_FETCH = 9
OFFSET_DELETE = 47
CONSUMER_GROUP_HEARTBEAT = 68
CONSUMER_GROUP_DESCRIBE = 69

NO_NODE = -1
NO_OFFSET = -1
FIRST_BATCHED_FIND_COORDINATOR = 4
FIRST_OFFSET_FETCH_WITH_ERROR_CODE = 2
FIRST_BATCHED_OFFSET_FETCH = 8

UNDERSTOOD_INSTEAD: Mapping[tuple[int, ErrorCode], ErrorCode] = {
    # A group that is being loaded has its members still, whatever their heartbeats would be checked against.
    (HEARTBEAT, ErrorCode.coordinator_load_in_progress): ErrorCode.none,
    # The rebalance that it belongs to is forgotten.
    (SYNC_GROUP, ErrorCode.coordinator_load_in_progress): ErrorCode.rebalance_in_progress,
    # Upon NOT_COORDINATOR librdkafka looks the coordinator up again, but never asks for the offsets again, and so
    # never begins to read (its issue 5586). Every broker leads to the coordinator: it is enough to come again.
    (OFFSET_FETCH, ErrorCode.not_coordinator): ErrorCode.coordinator_load_in_progress,
    (OFFSET_FETCH, ErrorCode.coordinator_not_available): ErrorCode.coordinator_load_in_progress,
    (OFFSET_FETCH, ErrorCode.request_timed_out): ErrorCode.coordinator_load_in_progress,
}
"""What clients of an API are told in place of an error that they do not know."""

Response = type[Entity]
Values = Mapping[str, Any]


def error_response(api_key: int, api_version: int, message: Entity, error: KafkaError) -> Entity:
    """Return the response that refuses a request as a whole.

    Args:
        api_key: one of the APIs above, or of those in `transaction_responses`.
        api_version: the version of the request, and of the response.
        message: the request, in kio's class of that version.
        error: why it is refused; its message goes along where the response has room for one.
    """
    response: Response = load_response_schema(api_key, api_version)
    code = UNDERSTOOD_INSTEAD.get((api_key, error.code), error.code)
    code = transaction_responses.understood_code(api_key, api_version, code)
    values = _PLACES[api_key](response, api_version, message, {"error_code": code, "error_message": error.message})
    return message_of(response, **values)


def _at_top(_response: Response, _version: int, _message: Any, error: Values) -> Values:
    return error


def _per_group(array: str, requested: str) -> "Place":
    """Return the place for an API whose response has an item with an error for every group id of the request."""

    def place(response: Response, _version: int, message: Any, error: Values) -> Values:
        item = item_type(response, array)
        return {array: tuple(message_of(item, group_id=name, **error) for name in getattr(message, requested))}

    return place


def _coordinators(response: Response, version: int, message: Any, error: Values) -> Values:
    nobody = {"node_id": NO_NODE, "port": NO_NODE, **error}
    if version < FIRST_BATCHED_FIND_COORDINATOR:
        return nobody
    item = item_type(response, "coordinators")
    return {"coordinators": tuple(message_of(item, key=key, **nobody) for key in message.coordinator_keys)}


def _committed(response: Response, _version: int, message: Any, error: Values) -> Values:
    topic_type = item_type(response, "topics")
    partition_type = item_type(topic_type, "partitions")
    return {
        "topics": tuple(
            message_of(
                topic_type,
                name=getattr(topic, "name", None),
                topic_id=getattr(topic, "topic_id", None),
                partitions=tuple(
                    message_of(partition_type, partition_index=partition.partition_index, **error)
                    for partition in topic.partitions
                ),
            )
            for topic in message.topics
        )
    }


def _fetched(response: Response, version: int, message: Any, error: Values) -> Values:
    if version >= FIRST_BATCHED_OFFSET_FETCH:
        item = item_type(response, "groups")
        return {"groups": tuple(message_of(item, group_id=group.group_id, **error) for group in message.groups)}
    topic_type = item_type(response, "topics")
    partition_type = item_type(topic_type, "partitions")
    nothing = {"committed_offset": NO_OFFSET, "metadata": "", **error}
    topics = tuple(
        message_of(
            topic_type,
            name=topic.name,
            partitions=tuple(
                message_of(partition_type, partition_index=index, **nothing) for index in topic.partition_indexes
            ),
        )
        for topic in message.topics or ()
    )
    # Kafka leaves the partitions out where the response has an error of its own, which aiokafka does not look at: it
    # would take that for "nothing was ever committed", and begin wherever `auto_offset_reset` says.
    return {"topics": topics, **(error if version >= FIRST_OFFSET_FETCH_WITH_ERROR_CODE else {})}


Place = Callable[[Response, int, Any, Values], Values]
"""Puts an error where the API's responses of a version have it, and names what was asked for."""

_PLACES: Mapping[int, Place] = {
    FIND_COORDINATOR: _coordinators,
    JOIN_GROUP: _at_top,
    HEARTBEAT: _at_top,
    LEAVE_GROUP: _at_top,
    SYNC_GROUP: _at_top,
    DESCRIBE_GROUPS: _per_group("groups", "groups"),
    LIST_GROUPS: _at_top,
    DELETE_GROUPS: _per_group("results", "groups_names"),
    OFFSET_COMMIT: _committed,
    OFFSET_FETCH: _fetched,
    OFFSET_DELETE: _at_top,
    CONSUMER_GROUP_HEARTBEAT: _at_top,
    CONSUMER_GROUP_DESCRIBE: _per_group("groups", "group_ids"),
    **transaction_responses.PLACES,
}

GROUP_APIS = frozenset(_PLACES)
"""The APIs that `error_response` knows."""
