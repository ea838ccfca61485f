"""DescribeClientQuotas (key 48): the quotas of the entities that a filter finds.

Source of the rules: Kafka's ClientQuotasImage.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final

from kio.schema.describe_client_quotas.v1.response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kio.schema.errors import ErrorCode
from kio.static.primitive import f64

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.long_responses import respond_in_thread
from ottla_broker.outcome import Outcome, Parts
from ottla_core.cluster.state.security import QuotaEntity, QuotaEntityKind
from ottla_core.errors import InvalidRequest, KafkaError, UnsupportedVersion
from ottla_core.slices import in_slices, started

Wanted = Mapping[QuotaEntityKind, "str | _AnyName | None"]


class MatchType(IntEnum):
    """How a part of a filter finds names."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


class _AnyName:
    """Stands for every name, and for the default."""


ANY_NAME: Final = _AnyName()


def handle(broker: Broker, request: Request) -> Outcome:
    """Answer with the entities that have every part of the filter and, if it is strict, no other."""
    return started(_handle(broker, request))


async def _handle(broker: Broker, request: Request) -> Parts:
    message = request.newest()
    try:
        wanted = _wanted(message.components)
    except KafkaError as error:
        return request.respond(
            DescribeClientQuotasResponse(
                throttle_time=NO_THROTTLE, error_code=error.code, error_message=error.message, entries=None
            )
        )
    known = broker.state.security.client_quotas
    found = await in_slices(
        _described(entity, quotas) if _finds(wanted, entity, strict=message.strict) else None
        for entity, quotas in known.items()
    )
    entries = tuple(each for each in found if each is not None)
    response = DescribeClientQuotasResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None, entries=entries
    )
    return await respond_in_thread(request, response, len(entries))


def _wanted(components: Iterable[Any]) -> Wanted:
    """Return the names that are wanted, by kind.

    Raises:
        InvalidRequest: nothing can be found by it.
        UnsupportedVersion: it names a kind that there is not.
    """
    wanted: dict[QuotaEntityKind, str | _AnyName | None] = {}
    for component in components:
        if not component.entity_type:
            raise InvalidRequest("Invalid empty entity type.")
        if component.entity_type not in {*QuotaEntityKind}:
            raise UnsupportedVersion(f"Unsupported entity type {component.entity_type}")
        kind = QuotaEntityKind(component.entity_type)
        if kind in wanted:
            raise InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
        if component.match_type == MatchType.EXACT:
            if component.match is None:
                raise InvalidRequest("Request specified MATCH_TYPE_EXACT, but set match string to null.")
            wanted[kind] = component.match
            continue
        if component.match_type not in {*MatchType}:
            raise InvalidRequest(f"Unknown match type {component.match_type}")
        match_type = MatchType(component.match_type)
        if component.match is not None:
            raise InvalidRequest(
                f"Request specified MATCH_TYPE_{match_type.name}, but also specified a match string."
            )
        wanted[kind] = None if match_type is MatchType.DEFAULT else ANY_NAME
    if QuotaEntityKind.IP in wanted and len(wanted) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )
    return wanted


def _finds(wanted: Wanted, entity: QuotaEntity, *, strict: bool) -> bool:
    names = dict(entity.names)
    if strict and len(names) != len(wanted):
        return False
    return all(kind in names and (name is ANY_NAME or names[kind] == name) for kind, name in wanted.items())


def _described(entity: QuotaEntity, quotas: Mapping[str, float]) -> EntryData:
    return EntryData(
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity.names),
        values=tuple(ValueData(key=name, value=f64(value)) for name, value in quotas.items()),
    )
