"""AlterClientQuotas (key 49): set and remove quotas of users, client ids and addresses, by the controller."""

from collections.abc import Sequence
from typing import Any

from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse, EntityData, EntryData
from kio.schema.errors import ErrorCode

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.long_responses import respond_in_thread
from ottla_broker.outcome import Parts
from ottla_core.cluster.controller_rpc.quota_messages import (
    EntityParts,
    alteration_to_message,
    altered_from_message,
)
from ottla_core.errors import KafkaError
from ottla_core.slices import in_slices
from ottla_proto.gen.ottla import quotas_pb2 as pb

Alteration = tuple[EntityParts, Sequence[tuple[str, float | None]]]


async def handle(broker: Broker, request: Request) -> Parts:
    """Have the controller change quotas; each entity succeeds or fails by itself, and this broker goes by it then."""
    message = request.newest()
    alterations = await in_slices(_alteration(entry) for entry in message.entries)
    asked = pb.AlterQuotasRequest(
        alterations=[alteration_to_message(*each) for each in alterations], validate_only=message.validate_only
    )
    try:
        answer = await broker.controller.forward(
            "AlterQuotas", asked, timeout_s=broker.config.request_timeout_ms / 1000
        )
        entries = await in_slices(_entry(*altered_from_message(each)) for each in answer.entities)
    except KafkaError as error:
        entries = await in_slices(
            _entry(entity, error) for entity in dict.fromkeys(entity for entity, _ in alterations)
        )
    response = AlterClientQuotasResponse(throttle_time=NO_THROTTLE, entries=tuple(entries))
    return await respond_in_thread(request, response, len(entries))


def _alteration(entry: Any) -> Alteration:
    entity = tuple((each.entity_type, each.entity_name) for each in entry.entity)
    return entity, [(each.key, None if each.remove else each.value) for each in entry.ops]


def _entry(entity: EntityParts, error: KafkaError | None) -> EntryData:
    return EntryData(
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
    )
