"""Which requests change the cluster, and what each of them is about. Pure.

`CHANGES` and `NO_CHANGES` have every API that brokers serve; a test compares them with the dispatch table, so that no
new API is left out unawares. Of settings, users and tokens the names are told and never the values.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from ottla_core.acls import ALL_OPERATIONS, AclOperation, PatternType, Permission, ResourceKind
from ottla_core.cluster.controller_rpc.controller_api import ConfigResourceType
from ottla_core.wire.links_messages import LINKS_KEY, LinksMethod

TopicName = Callable[[UUID], str | None]
"""Returns the name of a topic that there is."""

Resources = Callable[[Any, TopicName], Iterable[str]]

_LINK_CHANGES: Final = frozenset(
    {
        LinksMethod.CREATE_LINK,
        LinksMethod.ALTER_LINK,
        LinksMethod.DELETE_LINK,
        LinksMethod.CREATE_LINKED_TOPICS,
        LinksMethod.ADD_LINKED_PARTITIONS,
        LinksMethod.PROMOTE,
    }
)


def changed_resources(api_key: int, message: Any, topic_name: TopicName) -> list[str] | None:
    """Return what a request would change, each as TYPE:NAME; None if it changes nothing.

    Args:
        api_key: of the request.
        message: the request, in any version's class.
        topic_name: looks up topics that are named by their ids.
    """
    resources = CHANGES.get(api_key)
    if resources is None or getattr(message, "validate_only", False):
        return None
    if api_key == LINKS_KEY and message.method not in _LINK_CHANGES:
        return None
    return list(resources(message, topic_name))


def _topics(message: Any, _topic_name: TopicName) -> Iterator[str]:
    for topic in message.topics or ():
        yield f"TOPIC:{topic.name}"


def _deleted_topics(message: Any, topic_name: TopicName) -> Iterator[str]:
    for name in getattr(message, "topic_names", ()):
        yield f"TOPIC:{name}"
    for topic in getattr(message, "topics", ()):
        named = topic.name or topic_name(topic.topic_id) or topic.topic_id
        yield f"TOPIC:{named}" if not topic.name or topic.topic_id is None else f"TOPIC:{named} {topic.topic_id}"


def _created_acls(message: Any, _topic_name: TopicName) -> Iterator[str]:
    for each in message.creations:
        pattern = getattr(each, "resource_pattern_type", PatternType.LITERAL)
        resource = _pattern(each.resource_type, each.resource_name, pattern)
        yield f"{resource} {_grant(each, each.principal, each.host)}"


def _deleted_acls(message: Any, _topic_name: TopicName) -> Iterator[str]:
    for each in message.filters:
        pattern = getattr(each, "pattern_type_filter", PatternType.LITERAL)
        resource = _pattern(each.resource_type_filter, each.resource_name_filter, pattern)
        yield f"{resource} {_grant(each, each.principal_filter, each.host_filter)}"


def _pattern(kind: int, name: str | None, pattern: int) -> str:
    return f"{_name_in(ResourceKind, kind)}:{_or_any(name)} ({_name_in(PatternType, pattern)})"


def _grant(item: Any, principal: str | None, host: str | None) -> str:
    operation = "ALL" if item.operation == ALL_OPERATIONS else _name_in(AclOperation, item.operation)
    return f"{_name_in(Permission, item.permission_type)} {operation} to {_or_any(principal)} from {_or_any(host)}"


def _or_any(text: str | None) -> str:
    return "ANY" if text is None else text


def _name_in(names: Any, number: int) -> str:
    """Return the name of a number, or the number where a filter means any, or a client makes something up."""
    try:
        return str(names(number).name)
    except ValueError:
        return "ANY" if number == 1 else str(number)


def _configs(message: Any, _topic_name: TopicName) -> Iterator[str]:
    for resource in message.resources:
        kind = _name_in(ConfigResourceType, resource.resource_type)
        settings = ", ".join(config.name for config in resource.configs)
        yield f"{kind}:{resource.resource_name} ({settings})"


def _moved_logs(message: Any, _topic_name: TopicName) -> Iterator[str]:
    for directory in message.dirs:
        for topic in directory.topics:
            yield f"TOPIC:{topic.name} to {directory.path}"


def _token(message: Any, _topic_name: TopicName) -> Iterator[str]:
    if getattr(message, "owner_principal_name", None):
        yield f"DELEGATION_TOKEN of {message.owner_principal_type}:{message.owner_principal_name}"
    else:
        yield "DELEGATION_TOKEN"


def _groups(message: Any, _topic_name: TopicName) -> Iterator[str]:
    for group_id in message.groups_names:
        yield f"GROUP:{group_id}"


def _markers(message: Any, _topic_name: TopicName) -> Iterator[str]:
    for marker in message.markers:
        result = "commit" if marker.transaction_result else "abort"
        for topic in marker.topics:
            yield f"TOPIC:{topic.name} ({result} of the transaction of producer {marker.producer_id})"


def _elections(message: Any, _topic_name: TopicName) -> Iterator[str]:
    for topic in message.topic_partitions or ():
        yield f"TOPIC:{topic.topic}"


def _offsets(message: Any, _topic_name: TopicName) -> Iterator[str]:
    yield f"GROUP:{message.group_id}"
    yield from _topics(message, _topic_name)


def _quotas(message: Any, _topic_name: TopicName) -> Iterator[str]:
    for entry in message.entries:
        entity = ", ".join(f"{part.entity_type}={part.entity_name or 'default'}" for part in entry.entity)
        yield f"QUOTA:{entity} ({', '.join(op.key for op in entry.ops)})"


def _users(message: Any, _topic_name: TopicName) -> Iterator[str]:
    for name in dict.fromkeys(each.name for each in (*message.deletions, *message.upsertions)):
        yield f"USER:{name}"


def _features(message: Any, _topic_name: TopicName) -> Iterator[str]:
    for update in message.feature_updates:
        yield f"FEATURE:{update.feature} to {update.max_version_level}"


def _broker(message: Any, _topic_name: TopicName) -> Iterator[str]:
    yield f"BROKER:{message.broker_id}"


def _links(message: Any, _topic_name: TopicName) -> Iterator[str]:
    yield f"LINKS:{LinksMethod(message.method).name}"


CHANGES: Final[Mapping[int, Resources]] = {
    19: _topics,  # CreateTopics
    20: _deleted_topics,
    21: _topics,  # DeleteRecords
    27: _markers,  # WriteTxnMarkers
    30: _created_acls,
    31: _deleted_acls,
    33: _configs,  # AlterConfigs
    34: _moved_logs,
    37: _topics,  # CreatePartitions
    38: _token,
    39: _token,
    40: _token,
    42: _groups,  # DeleteGroups
    43: _elections,
    44: _configs,  # IncrementalAlterConfigs
    45: _topics,  # AlterPartitionReassignments
    47: _offsets,  # OffsetDelete
    49: _quotas,  # AlterClientQuotas
    51: _users,  # AlterUserScramCredentials
    57: _features,
    64: _broker,  # UnregisterBroker
    LINKS_KEY: _links,
}
"""By API, what its requests are about."""

NO_CHANGES: Final = frozenset(
    {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 22, 23, 24, 25, 26, 28}
    | {29, 32, 35, 36, 41, 46, 48, 50, 55, 60, 61, 65, 66, 68, 69, 71, 72, 74, 75}
)
"""APIs of data, of transactions, of groups' members, of logins, and those that tell something."""
