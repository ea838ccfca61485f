"""``/connectors/{connector}/offsets``: where a connector is, and how to change that (KIP-875)."""

from fastapi import APIRouter, Depends

from ottla_connect.rest.entities import ConnectorOffsets, Message
from ottla_connect.rest.json_bodies import parse_offsets
from ottla_connect.rest.options import TheHerder
from ottla_connect.rest.resources.documented import ConnectorName, errors, takes
from ottla_core.rest.request_bodies import Body, check_media_type

EXAMPLE = {
    "offsets": [{"partition": {"kafka_topic": "orders", "kafka_partition": 0}, "offset": {"kafka_offset": 1000}}]
}

router = APIRouter(prefix="/connectors/{connector:segment}/offsets", tags=["offsets"])


@router.get("", summary="A connector's offsets", responses=errors(404))
async def connector_offsets(herder: TheHerder, connector: ConnectorName) -> ConnectorOffsets:
    """Return a source's offsets as its tasks committed them, a sink's as its consumer group did."""
    return ConnectorOffsets.of(await herder.offsets(connector))


@router.patch(
    "",
    summary="Set offsets of a stopped connector",
    responses=errors(400, 404, 409),
    openapi_extra=takes(ConnectorOffsets, EXAMPLE),
)
async def alter_offsets(herder: TheHerder, connector: ConnectorName, body: Body) -> Message:
    """Set those that are named; null removes one. The connector has to be stopped."""
    return Message(message=await herder.alter_offsets(connector, parse_offsets(body)))


@router.delete(
    "",
    summary="Remove all offsets of a stopped connector",
    responses=errors(400, 404, 409),
    dependencies=[Depends(check_media_type)],
)
async def reset_offsets(herder: TheHerder, connector: ConnectorName) -> Message:
    """Have it begin anew when it is resumed. The connector has to be stopped."""
    return Message(message=await herder.reset_offsets(connector))
