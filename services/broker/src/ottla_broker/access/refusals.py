"""The responses that refuse requests, or some of their items, to clients that may not make them. Pure.

Most APIs answer item by item, and their responses repeat what identifies an item under the names that the request
has. So an answer to a refused item is made of the item: what both have is copied, and the error stands wherever the
response's class has room for one. What differs is listed here by API.

Source: `getErrorResponse` of Kafka's request classes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from kio.index import load_response_schema
from kio.static.protocol import Entity

from ottla_core.errors import KafkaError
from ottla_core.wire import group_responses, transaction_responses
from ottla_core.wire.conversion import default_values, entity_in, item_type, message_of

CREATE_ACLS, DELETE_ACLS = 30, 31
DELETE_RECORDS = 21
CREATE_PARTITIONS = 37
ALTER_REPLICA_LOG_DIRS = 34
DESCRIBE_PRODUCERS = 61
ALTER_REASSIGNMENTS = 45
ELECT_LEADERS = 43
ALTER_CLIENT_QUOTAS = 49
DESCRIBE_SCRAM_USERS, ALTER_SCRAM_USERS = 50, 51

_ANSWERED: Final[Mapping[int, tuple[str, str]]] = {
    2: ("topics", "topics"),
    19: ("topics", "topics"),
    DELETE_RECORDS: ("topics", "topics"),
    23: ("topics", "topics"),
    CREATE_ACLS: ("creations", "results"),
    DELETE_ACLS: ("filters", "filter_results"),
    32: ("resources", "results"),
    33: ("resources", "responses"),
    CREATE_PARTITIONS: ("topics", "results"),
    44: ("resources", "responses"),
    ALTER_CLIENT_QUOTAS: ("entries", "entries"),
    DESCRIBE_PRODUCERS: ("topics", "topics"),
    ALTER_REASSIGNMENTS: ("topics", "responses"),
}
"""By API: the list of a request whose items have errors of their own, and the list of its responses."""

_GROUP_ANSWERS: Final[Mapping[int, str]] = {
    group_responses.OFFSET_COMMIT: "topics",
    group_responses.OFFSET_FETCH: "groups",
    group_responses.DESCRIBE_GROUPS: "groups",
    group_responses.DELETE_GROUPS: "results",
    group_responses.OFFSET_DELETE: "topics",
    group_responses.CONSUMER_GROUP_DESCRIBE: "groups",
    transaction_responses.DESCRIBE_TRANSACTIONS: "transaction_states",
}
"""The same of APIs of coordinators, whose whole responses `group_responses` makes."""

_EXTRA: Final[Mapping[int, Mapping[str, object]]] = {
    DELETE_RECORDS: {"low_watermark": -1},
    group_responses.OFFSET_FETCH: {"committed_offset": -1, "metadata": ""},
}
"""What answers to refused items say besides, where the schema's default says something else."""

_INDEXES: Final[Mapping[str, str]] = {"partition_indexes": "partitions"}
"""Lists of bare partition indexes in requests, and the lists of messages in their responses."""


def refusal(api_key: int, api_version: int, message: Any, error: KafkaError) -> Entity:
    """Return the response that refuses a request as a whole.

    Args:
        api_key: of the request.
        api_version: of the request and of the response.
        message: the request, in kio's class of that version; of a refused part, the same with the part's items.
        error: why.
    """
    if api_key in group_responses.GROUP_APIS:
        return group_responses.error_response(api_key, api_version, message, error)
    response: type[Entity] = load_response_schema(api_key, api_version)
    told = {"error_code": error.code, "error_message": error.message}
    if api_key == ELECT_LEADERS:
        return message_of(
            response,
            replica_election_results=_of_elections(item_type(response, "replica_election_results"), message, told),
            **told,
        )
    if api_key == DESCRIBE_SCRAM_USERS:
        answer_type = item_type(response, "results")
        described = tuple(message_of(answer_type, user=each.name, **told) for each in message.users or ())
        return message_of(response, results=described, **told)
    if api_key == ALTER_SCRAM_USERS:
        users = dict.fromkeys(each.name for each in (*message.deletions, *message.upsertions))
        answer_type = item_type(response, "results")
        return message_of(response, results=tuple(message_of(answer_type, user=user, **told) for user in users))
    if api_key == ALTER_REPLICA_LOG_DIRS:
        return message_of(response, results=_of_log_dirs(item_type(response, "results"), message, told))
    if api_key not in _ANSWERED:
        return message_of(response, **told)
    requested, answered = _ANSWERED[api_key]
    items = answers_to(api_key, response, answered, getattr(message, requested) or (), error)
    return message_of(response, **{answered: items}, **told)


def part_refusal(api_key: int, api_version: int, message: Any, error: KafkaError) -> Entity:
    """Return the response that refuses the items of `message`, which are a part of a request's."""
    if api_key != group_responses.OFFSET_DELETE:
        return refusal(api_key, api_version, message, error)
    response: type[Entity] = load_response_schema(api_key, api_version)
    return message_of(response, topics=answers_to(api_key, response, "topics", message.topics, error))


def list_of_answers(api_key: int) -> str:
    """Return the name of the list of an API's responses that has an answer for each item of a request."""
    return _ANSWERED[api_key][1] if api_key in _ANSWERED else _GROUP_ANSWERS[api_key]


def answers_to(
    api_key: int, response: type[Entity], answered: str, items: Iterable[Any], error: KafkaError
) -> tuple[Entity, ...]:
    """Return what a response's list has for refused items of a request."""
    answer_type = item_type(response, answered)
    told = {"error_code": error.code, "error_message": error.message, **_EXTRA.get(api_key, {})}
    return tuple(_answer_to(answer_type, item, told) for item in items)


def _answer_to(answer_type: type[Entity], item: Any, told: Mapping[str, object]) -> Entity:
    values: dict[str, object] = dict(told)
    known = default_values(answer_type)
    for name in (field.name for field in fields(item)):
        value = getattr(item, name)
        name_of_answer = _INDEXES.get(name, name)
        if name_of_answer not in known:
            continue
        inner = entity_in(answer_type, name_of_answer)
        if inner is None:
            values[name_of_answer] = value
        elif isinstance(value, tuple):
            values[name_of_answer] = tuple(
                _answer_to(inner, each, told)
                if is_dataclass(each)
                else message_of(inner, partition_index=each, **told)
                for each in value
            )
    return message_of(answer_type, **values)


def _of_elections(answer_type: type[Entity], message: Any, told: Mapping[str, object]) -> tuple[Entity, ...]:
    partition_type = item_type(answer_type, "partition_result")
    return tuple(
        message_of(
            answer_type,
            topic=topic.topic,
            partition_result=tuple(
                message_of(partition_type, partition_id=index, **told) for index in topic.partitions
            ),
        )
        for topic in message.topic_partitions or ()
    )


def _of_log_dirs(answer_type: type[Entity], message: Any, told: Mapping[str, object]) -> tuple[Entity, ...]:
    """Return what AlterReplicaLogDirs answers by topic, of a request that is by directory."""
    partition_type = item_type(answer_type, "partitions")
    by_topic: dict[str, list[int]] = {}
    for directory in message.dirs:
        for topic in directory.topics:
            by_topic.setdefault(topic.name, []).extend(topic.partitions)
    return tuple(
        message_of(
            answer_type,
            topic_name=name,
            partitions=tuple(message_of(partition_type, partition_index=index, **told) for index in indexes),
        )
        for name, indexes in by_topic.items()
    )
