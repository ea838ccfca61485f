"""Clients' quotas as the protobuf messages of the controller's service, and back. Pure."""

from collections.abc import Iterable, Sequence

from kio.schema.errors import ErrorCode

from ottla_core.errors import CodedError, KafkaError
from ottla_proto.gen.ottla import quotas_pb2 as pb

EntityParts = tuple[tuple[str, str | None], ...]
"""The kinds and names of an entity, as a client names them; None stands for the default."""
QuotaAlteration = tuple[EntityParts, Sequence[tuple[str, float | None]]]
"""An entity, and the quotas that it is to have; None has a quota removed."""


def alteration_to_message(entity: EntityParts, changes: Iterable[tuple[str, float | None]]) -> pb.QuotaAlteration:
    """Return the message of what is to be done for one entity."""
    return pb.QuotaAlteration(
        entity=_parts_to_message(entity), changes=[pb.QuotaChange(name=name, value=value) for name, value in changes]
    )


def alteration_from_message(message: pb.QuotaAlteration) -> QuotaAlteration:
    """Return what is to be done for one entity."""
    changes = [(each.name, each.value if each.HasField("value") else None) for each in message.changes]
    return _parts_from_message(message.entity), changes


def altered_to_message(entity: EntityParts, error: KafkaError | None) -> pb.AlteredEntity:
    """Return the message of what came of one entity."""
    if error is None:
        return pb.AlteredEntity(entity=_parts_to_message(entity))
    return pb.AlteredEntity(
        entity=_parts_to_message(entity), error_code=error.code.value, error_message=error.message
    )


def altered_from_message(message: pb.AlteredEntity) -> tuple[EntityParts, KafkaError | None]:
    """Return what came of one entity."""
    error = CodedError(ErrorCode(message.error_code), message.error_message) if message.error_code else None
    return _parts_from_message(message.entity), error


def _parts_to_message(entity: EntityParts) -> list[pb.EntityPart]:
    return [pb.EntityPart(kind=kind, name=name) for kind, name in entity]


def _parts_from_message(parts: Iterable[pb.EntityPart]) -> EntityParts:
    return tuple((each.kind, each.name if each.HasField("name") else None) for each in parts)
