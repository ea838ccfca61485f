"""Quotas of clients in a cluster, over Kafka's protocol (KIP-546)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest
from kio.schema.errors import ErrorCode
from kio.static.primitive import f64

from ottla_operations.errors import OperationError

if TYPE_CHECKING:
    from ottla_operations.cluster.cluster_admin import ClusterAdmin

Entity = tuple[tuple[str, str | None], ...]
"""Kinds and names; None stands for the default."""


def quotas_of(admin: "ClusterAdmin") -> dict[Entity, dict[str, float]]:
    """Return all entities with their quotas.

    Raises:
        OperationError: the cluster refuses.
    """
    response = admin.ask(DescribeClientQuotasRequest(components=(), strict=False))
    if response.error_code is not ErrorCode.none:
        raise OperationError(response.error_message or response.error_code.name)
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in response.entries
    }


def change(admin: "ClusterAdmin", entity: Entity, quotas: Mapping[str, float | None]) -> None:
    """Set an entity's quotas; None has one removed.

    Raises:
        OperationError: the cluster refuses.
    """
    entry = EntryData(
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
        ops=tuple(
            OpData(key=name, value=f64(0.0 if value is None else value), remove=value is None)
            for name, value in quotas.items()
        ),
    )
    (result,) = admin.ask(AlterClientQuotasRequest(entries=(entry,), validate_only=False)).entries
    if result.error_code is not ErrorCode.none:
        raise OperationError(f"{shown(entity)}: {result.error_message or result.error_code.name}")


def shown(entity: Entity) -> str:
    """Return an entity as people read it."""
    return ", ".join(f"default {kind}" if name is None else f"{kind} {name}" for kind, name in entity)
