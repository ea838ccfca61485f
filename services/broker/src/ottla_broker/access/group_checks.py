"""What the APIs of groups ask of a client's rights, before they are passed on to a group's coordinator.

Coordinators are not told who asks: what a client may not do does not reach them, and what it may not see of their
answers is taken out here.

Source: Kafka's KafkaApis.
"""

from dataclasses import replace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ottla_broker.access.checks import itself, on_each, permitted_part, refused, topic_of
from ottla_broker.access.partial_requests import Check, PermittedPart, decoded
from ottla_broker.access.refusals import answers_to
from ottla_broker.authorization import denial
from ottla_broker.broker import Broker, Request
from ottla_core.acls import AclOperation, ResourceKind
from ottla_core.errors import KafkaError, UnknownTopicId
from ottla_core.wire.conversion import item_type
from ottla_core.wire.group_responses import OFFSET_FETCH

FIRST_BATCHED_OFFSET_FETCH: Final = 8
HIDDEN_TOPICS: Final = "The group has described topic(s) that the client is not authorized to describe."


def _topics(operation: AclOperation, group_operation: AclOperation) -> Check:
    """Return the check of an API about offsets: a right on the group, and one on each topic."""

    def check(broker: Broker, request: Request) -> PermittedPart | None:
        authorization = broker.authorization
        if not authorization.permits(request, group_operation, ResourceKind.GROUP, request.message.group_id):
            return refused(request, denial(ResourceKind.GROUP))
        if authorization.is_super_user(request.principal):
            return None  # of frequent requests the rest has not been read

        def error_of(topic: Any) -> KafkaError | None:
            name = topic_of(broker, topic)
            # The coordinator may see the topic already.
            if name is None and getattr(topic, "topic_id", None) is not None:
                return UnknownTopicId("This server does not host this topic ID.")
            if name is None or authorization.permits(request, operation, ResourceKind.TOPIC, name):
                return None
            return denial(ResourceKind.TOPIC)

        return permitted_part(request, "topics", error_of)

    return check


offset_commit: Final = _topics(AclOperation.READ, AclOperation.READ)
offset_delete: Final = _topics(AclOperation.READ, AclOperation.DELETE)


def consumer_group_heartbeat(broker: Broker, request: Request) -> PermittedPart | None:
    """Take READ on the group, and DESCRIBE on each topic that the member names."""
    authorization = broker.authorization
    if not authorization.permits(request, AclOperation.READ, ResourceKind.GROUP, request.message.group_id):
        return refused(request, denial(ResourceKind.GROUP))
    if authorization.is_super_user(request.principal):
        return None
    for topic in decoded(request).subscribed_topic_names or ():
        if not authorization.permits(request, AclOperation.DESCRIBE, ResourceKind.TOPIC, topic):
            return refused(request, denial(ResourceKind.TOPIC))
    return None


def describe_groups(broker: Broker, request: Request) -> PermittedPart | None:
    """Take DESCRIBE on each group, and tell what the client may do with it."""
    permitted = _DESCRIBE_GROUPS(broker, request)
    if not getattr(request.message, "include_authorized_operations", False):
        return permitted
    return replace(
        permitted or PermittedPart(request.message), revise=lambda told: _with_operations(broker, request, told)
    )


def consumer_group_describe(broker: Broker, request: Request) -> PermittedPart | None:
    """Take DESCRIBE on each group, and on each topic that its members have."""
    permitted = _DESCRIBE_CONSUMER_GROUPS(broker, request)

    def revise(response: Any) -> Any:
        if request.message.include_authorized_operations:
            response = _with_operations(broker, request, response)
        return replace(response, groups=tuple(_without_hidden(broker, request, each) for each in response.groups))

    return replace(permitted or PermittedPart(request.message), revise=revise)


_DESCRIBE_GROUPS: Final = on_each("groups", AclOperation.DESCRIBE, ResourceKind.GROUP, itself)
_DESCRIBE_CONSUMER_GROUPS: Final = on_each("group_ids", AclOperation.DESCRIBE, ResourceKind.GROUP, itself)


def _with_operations(broker: Broker, request: Request, response: Any) -> Any:
    def told(group: Any) -> Any:
        if group.error_code:
            return group
        operations = broker.authorization.operations_on(request, ResourceKind.GROUP, group.group_id)
        return replace(group, authorized_operations=operations)

    return replace(response, groups=tuple(told(group) for group in response.groups))


def _without_hidden(broker: Broker, request: Request, group: Any) -> Any:
    """Return a group, or an error in its place if its members have topics that the client may not see."""
    topics = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    may_see = all(
        broker.authorization.permits(request, AclOperation.DESCRIBE, ResourceKind.TOPIC, topic, is_listing=True)
        for topic in topics
    )
    if may_see:
        return group
    code = denial(ResourceKind.TOPIC).code
    return replace(group, error_code=code, error_message=HIDDEN_TOPICS, members=())


def offset_fetch(broker: Broker, request: Request) -> PermittedPart | None:
    """Take DESCRIBE on each group and each topic; without topics, tell what the client may see."""
    if request.version < FIRST_BATCHED_OFFSET_FETCH:
        return _offset_fetch_of_one(broker, request)
    permitted = permitted_part(request, "groups", lambda group: _group_error(broker, request, group))
    if permitted is not None and permitted.message is None:
        return permitted
    message: Any = request.message
    if permitted is not None:
        message = permitted.message
    hidden: dict[str, list[Any]] = {group.group_id: [] for group in message.groups}
    groups = tuple(_sift_topics(broker, request, group, hidden[group.group_id]) for group in message.groups)
    sees_everything = not any(hidden.values()) and all(group.topics is not None for group in groups)
    if sees_everything:
        return permitted

    def revise(response: Any) -> Any:
        group_type = item_type(request.codec.response_type, "groups")
        return replace(
            response,
            groups=tuple(
                _with_refused_topics(broker, request, group, group_type, hidden.get(group.group_id, ()))
                for group in response.groups
            ),
        )

    return replace(permitted or PermittedPart(message), message=replace(message, groups=groups), revise=revise)


def _offset_fetch_of_one(broker: Broker, request: Request) -> PermittedPart | None:
    message = request.message
    if _group_error(broker, request, message) is not None:
        return refused(request, denial(ResourceKind.GROUP))
    hidden: list[Any] = []
    rest = _sift_topics(broker, request, message, hidden)
    if not hidden and message.topics is not None:
        return None
    response_type = request.codec.response_type
    return PermittedPart(
        rest, revise=lambda response: _with_refused_topics(broker, request, response, response_type, hidden)
    )


def _group_error(broker: Broker, request: Request, group: Any) -> KafkaError | None:
    if broker.authorization.permits(request, AclOperation.DESCRIBE, ResourceKind.GROUP, group.group_id):
        return None
    return denial(ResourceKind.GROUP)


def _sift_topics(broker: Broker, request: Request, group: Any, hidden: list[Any]) -> Any:
    """Return what asks for a group's offsets without the topics that the client may not see, which are `hidden`."""
    if group.topics is None:
        return group
    left: list[Any] = []
    for topic in group.topics:
        (left if _may_see(broker, request, topic) else hidden).append(topic)
    return group if len(left) == len(group.topics) else replace(group, topics=tuple(left))


def _may_see(broker: Broker, request: Request, topic: Any, *, is_listing: bool = False) -> bool:
    name = topic_of(broker, topic)
    return name is None or broker.authorization.permits(
        request, AclOperation.DESCRIBE, ResourceKind.TOPIC, name, is_listing=is_listing
    )


def _with_refused_topics(broker: Broker, request: Request, group: Any, group_type: Any, hidden: Any) -> Any:
    if getattr(group, "error_code", ErrorCode.none):
        return group
    seen = tuple(topic for topic in group.topics if _may_see(broker, request, topic, is_listing=True))
    answers: tuple[Any, ...] = answers_to(OFFSET_FETCH, group_type, "topics", hidden, denial(ResourceKind.TOPIC))
    return replace(group, topics=(*seen, *answers))
