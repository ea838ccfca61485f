"""``/connectors``: connectors and their settings (Kafka's ConnectorsResource)."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response

from ottla_connect.rest.connector_names import check_new_name, settings_with_name
from ottla_connect.rest.entities import ConnectorInfo, ConnectorStateInfo, CreateConnectorRequest, ExpandedConnector
from ottla_connect.rest.json_bodies import parse_create_request, parse_patch, parse_settings
from ottla_connect.rest.options import TheHerder
from ottla_connect.rest.resources.documented import ConnectorName, errors, takes
from ottla_core.rest.errors import NotFound
from ottla_core.rest.request_bodies import Body

CONFIG_EXAMPLE = {"connector.class": "ottla_datagen.DatagenSource", "tasks.max": "1", "topic": "orders"}

router = APIRouter(prefix="/connectors", tags=["connectors"])


@router.get(
    "",
    summary="The names of all connectors, or more about each",
    response_model_exclude_none=True,
    responses=errors(),
)
async def list_connectors(
    herder: TheHerder,
    expand: Annotated[
        list[str] | None, Query(description="status or info or both; the answer is then an object by name.")
    ] = None,
) -> list[str] | dict[str, ExpandedConnector]:
    """List the connectors."""
    if expand is None:
        return list(herder.connectors())
    expanded = {}
    for name in herder.connectors():
        try:
            expanded[name] = ExpandedConnector(
                status=ConnectorStateInfo.of(herder.connector_status(name)) if "status" in expand else None,
                info=ConnectorInfo.of(herder.connector_info(name)) if "info" in expand else None,
            )
        except NotFound:
            continue  # it has been deleted meanwhile
    return expanded


@router.post(
    "",
    status_code=201,
    summary="Create a connector",
    responses=errors(400, 409),
    openapi_extra=takes(CreateConnectorRequest, {"name": "orders", "config": CONFIG_EXAMPLE}),
)
async def create_connector(herder: TheHerder, body: Body, request: Request, response: Response) -> ConnectorInfo:
    """Create a connector; it starts at once unless `initial_state` is PAUSED or STOPPED (KIP-980)."""
    wanted = parse_create_request(body)
    config = settings_with_name(wanted.name, wanted.config)
    check_new_name(wanted.name)
    info = await herder.create_connector(wanted.name, config, wanted.initial_state)
    response.headers["location"] = _location(request, info.name)
    return ConnectorInfo.of(info)


@router.get("/{connector:segment}", summary="A connector's settings and tasks", responses=errors(404))
async def connector_info(herder: TheHerder, connector: ConnectorName) -> ConnectorInfo:
    """Return them."""
    return ConnectorInfo.of(herder.connector_info(connector))


@router.delete("/{connector:segment}", status_code=204, summary="Delete a connector", responses=errors(404, 409))
async def delete_connector(herder: TheHerder, connector: ConnectorName) -> None:
    """Stop all its tasks and forget its settings; its offsets stay."""
    await herder.delete_connector(connector)


@router.get("/{connector:segment}/config", summary="A connector's settings", responses=errors(404))
async def connector_config(herder: TheHerder, connector: ConnectorName) -> dict[str, str]:
    """Return them as they were written: references to secrets are not resolved."""
    return dict(herder.connector_info(connector).config)


@router.put(
    "/{connector:segment}/config",
    summary="Create a connector, or replace its settings",
    responses={201: {"model": ConnectorInfo, "description": "It is new."}, **errors(400, 409)},
    openapi_extra=takes(dict[str, str], CONFIG_EXAMPLE),
)
async def put_connector_config(
    herder: TheHerder, connector: ConnectorName, body: Body, request: Request, response: Response
) -> ConnectorInfo:
    """Replace all settings; the connector and its tasks restart with the new ones."""
    config = settings_with_name(connector, parse_settings(body))
    if connector not in herder.connectors():
        check_new_name(connector)
    is_new, info = await herder.put_connector_config(connector, config)
    if is_new:
        response.status_code = 201
        response.headers["location"] = _location(request, info.name)
    return ConnectorInfo.of(info)


@router.patch(
    "/{connector:segment}/config",
    summary="Change some of a connector's settings",
    responses=errors(400, 404, 409),
    openapi_extra=takes(dict[str, str | None], {"tasks.max": "2", "transforms": None}),
)
async def patch_connector_config(herder: TheHerder, connector: ConnectorName, body: Body) -> ConnectorInfo:
    """Change the settings that are named; null removes one (KIP-477)."""
    return ConnectorInfo.of(await herder.patch_connector_config(connector, parse_patch(body)))


def _location(request: Request, name: str) -> str:
    return f"{str(request.base_url).rstrip('/')}/connectors/{quote(name, safe='')}"
