"""What each API asks of a client's rights: the checks of `partial_requests`, made for the dispatch table.

Source: Kafka's KafkaApis and ControllerApis; which errors stand where, `refusals`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

from ottla_broker.access.partial_requests import Check, PermittedPart, decoded
from ottla_broker.access.refusals import list_of_answers, part_refusal, refusal
from ottla_broker.authorization import denial
from ottla_broker.broker import Broker, Request
from ottla_core.acls import CLUSTER_NAME, AclOperation, ResourceKind
from ottla_core.cluster.controller_rpc.controller_api import ConfigResourceType
from ottla_core.errors import KafkaError

NameOf = Callable[[Broker, Any], str | None]
"""Returns the name of the resource that an item is about; None if the item names nothing that is there."""

CONFIG_KINDS: Final[Mapping[int, ResourceKind]] = {
    ConfigResourceType.TOPIC: ResourceKind.TOPIC,
    ConfigResourceType.GROUP: ResourceKind.GROUP,
    ConfigResourceType.BROKER: ResourceKind.CLUSTER,
    ConfigResourceType.BROKER_LOGGER: ResourceKind.CLUSTER,
    ConfigResourceType.CLIENT_METRICS: ResourceKind.CLUSTER,
}
"""Of which kind the resource is whose rights count for settings of a type."""


def in_handler(_broker: Broker, _request: Request) -> PermittedPart | None:
    """Check nothing: the handler asks for each thing that it would do or tell."""
    return None


def open_to_all(_broker: Broker, _request: Request) -> PermittedPart | None:
    """Check nothing: every client may ask this."""
    return None


def on_cluster(operation: AclOperation, *alternatives: AclOperation) -> Check:
    """Return the check of an API that takes a right on the cluster, one of several."""

    def check(broker: Broker, request: Request) -> PermittedPart | None:
        others = any(broker.authorization.permits_on_cluster(request, each, is_listing=True) for each in alternatives)
        if others or broker.authorization.permits_on_cluster(request, operation):
            return None
        return refused(request, denial(ResourceKind.CLUSTER))

    return check


def on_group(operation: AclOperation) -> Check:
    """Return the check of an API whose requests name one group."""

    def check(broker: Broker, request: Request) -> PermittedPart | None:
        if broker.authorization.permits(request, operation, ResourceKind.GROUP, request.message.group_id):
            return None
        return refused(request, denial(ResourceKind.GROUP))

    return check


def refused(request: Request, error: KafkaError) -> PermittedPart:
    """Return what refuses a request as a whole."""
    return PermittedPart(None, (refusal(request.header.api_key, request.version, decoded(request), error),))


def on_each(
    requested: str,
    operation: AclOperation,
    kind: ResourceKind,
    name_of: NameOf,
    *,
    on_cluster_instead: AclOperation | None = None,
) -> Check:
    """Return the check of an API that answers for each item of a list on its own.

    Args:
        requested: the list.
        operation: what a client must be allowed on each item's resource.
        kind: of these resources.
        name_of: returns an item's resource.
        on_cluster_instead: who may do this on the cluster needs no right on the items.
    """

    def check(broker: Broker, request: Request) -> PermittedPart | None:
        authorization = broker.authorization
        if on_cluster_instead is not None and authorization.permits_on_cluster(
            request, on_cluster_instead, is_listing=True
        ):
            return None

        def error_of(item: Any) -> KafkaError | None:
            name = name_of(broker, item)
            if name is None or authorization.permits(request, operation, kind, name):
                return None
            return denial(kind)

        return permitted_part(request, requested, error_of)

    return check


def permitted_part(
    request: Request, requested: str, error_of: Callable[[Any], KafkaError | None], message: Any = None
) -> PermittedPart | None:
    """Return the request without the items that are refused, and the responses that refuse them; None if none is."""
    message = decoded(request) if message is None else message
    items = getattr(message, requested) or ()
    errors = [error_of(item) for item in items]
    if not any(errors):
        return None
    left = tuple(item for item, error in zip(items, errors, strict=True) if error is None)
    denied = [(item, error) for item, error in zip(items, errors, strict=True) if error is not None]
    refusals = tuple(
        part_refusal(
            request.header.api_key,
            request.version,
            replace(message, **{requested: tuple(item for item, _ in alike)}),
            alike[0][1],
        )
        for alike in _alike(denied)
    )
    rest = replace(message, **{requested: left}) if left else None
    return PermittedPart(rest, refusals, list_of_answers(request.header.api_key))


def _alike(denied: Iterable[tuple[Any, KafkaError]]) -> Iterable[list[tuple[Any, KafkaError]]]:
    """Yield the refused items that follow each other with the same error."""
    for _, items in groupby(denied, key=lambda each: each[1].code):
        yield list(items)


# What items are about


def itself(_broker: Broker, item: Any) -> str | None:
    """Return the name that the item is."""
    return str(item)


def name_field(_broker: Broker, item: Any) -> str | None:
    """Return the field `name`."""
    return str(item.name)


def topic_field(_broker: Broker, item: Any) -> str | None:
    """Return the field `topic`."""
    return str(item.topic)


def topic_of(broker: Broker, item: Any) -> str | None:
    """Return the name of a topic that is named by name or, in newer versions, by id."""
    name = getattr(item, "name", None)
    if name:
        return str(name)
    found = broker.state.topics_by_id.get(getattr(item, "topic_id", None))  # type: ignore[arg-type]
    return None if found is None else found.name


# APIs with checks of their own


def create_topics(broker: Broker, request: Request) -> PermittedPart | None:
    """Take CREATE on the cluster or on the topic; who may not see the settings is not told them."""
    authorization = broker.authorization
    sees_all = authorization.permits_on_cluster(request, AclOperation.CREATE, is_listing=True)

    def error_of(topic: Any) -> KafkaError | None:
        if sees_all or authorization.permits(request, AclOperation.CREATE, ResourceKind.TOPIC, topic.name):
            return None
        return denial(ResourceKind.TOPIC)

    def without_settings(response: Any) -> Any:
        return replace(response, topics=tuple(_without_settings(broker, request, each) for each in response.topics))

    permitted = permitted_part(request, "topics", error_of) or PermittedPart(request.message)
    return replace(permitted, revise=without_settings)


NOT_TOLD: Final = -1
FIRST_CREATE_TOPICS_WITH_CONFIGS: Final = 5


def _without_settings(broker: Broker, request: Request, topic: Any) -> Any:
    if request.version < FIRST_CREATE_TOPICS_WITH_CONFIGS or topic.error_code:
        return topic
    if broker.authorization.permits(
        request, AclOperation.DESCRIBE_CONFIGS, ResourceKind.TOPIC, topic.name, is_listing=True
    ):
        return topic
    code = denial(ResourceKind.TOPIC).code
    return replace(
        topic, topic_config_error_code=code.value, num_partitions=NOT_TOLD, replication_factor=NOT_TOLD, configs=None
    )


def configs(operation: AclOperation) -> Check:
    """Return the check of an API about settings of topics, groups, brokers and so on."""

    def check(broker: Broker, request: Request) -> PermittedPart | None:
        def error_of(resource: Any) -> KafkaError | None:
            kind = CONFIG_KINDS.get(resource.resource_type)
            if kind is None:
                return None
            name = CLUSTER_NAME if kind is ResourceKind.CLUSTER else resource.resource_name
            return None if broker.authorization.permits(request, operation, kind, name) else denial(kind)

        return permitted_part(request, "resources", error_of)

    return check
