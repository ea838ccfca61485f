"""``/connector-plugins``: what can be run, and with which settings (Kafka's ConnectorPluginsResource)."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from ottla_connect.herder.api import ConnectorType
from ottla_connect.rest.entities import ConfigInfos, ConfigKeyInfo, PluginInfo
from ottla_connect.rest.json_bodies import parse_settings
from ottla_connect.rest.options import Flag, TheHerder
from ottla_connect.rest.resources.connectors import CONFIG_EXAMPLE
from ottla_connect.rest.resources.documented import errors, takes
from ottla_core.rest.errors import BadRequest
from ottla_core.rest.request_bodies import Body

CLASS_KEY = "connector.class"
SUFFIX = "Connector"
CONNECTOR_TYPES = (ConnectorType.SOURCE, ConnectorType.SINK)

PluginName = Annotated[str, Path(alias="plugin", description="The class, by its full name or its short one.")]

router = APIRouter(prefix="/connector-plugins", tags=["plugins"])


@router.get("", summary="The plugin classes that are installed", response_model_exclude_none=True, responses=errors())
async def list_plugins(
    herder: TheHerder,
    connectors_only: Annotated[
        Flag,
        Query(alias="connectorsOnly", description="Whether transformations, converters and others are left out."),
    ] = True,
) -> list[PluginInfo]:
    """List them; with connectorsOnly=false also the plugins that cannot be imported, of type ``broken``."""
    return [
        PluginInfo.of(plugin)
        for plugin in await herder.plugins()
        if not connectors_only or plugin.type in CONNECTOR_TYPES
    ]


@router.get("/{plugin:segment}/config", summary="The settings of a plugin class", responses=errors(404))
async def plugin_config(herder: TheHerder, plugin: PluginName) -> list[ConfigKeyInfo]:
    """List them (KIP-769)."""
    return [ConfigKeyInfo.model_validate(setting) for setting in await herder.plugin_config(plugin)]


@router.put(
    "/{plugin:segment}/config/validate",
    summary="Check settings of a connector",
    responses=errors(400),
    openapi_extra=takes(dict[str, str], CONFIG_EXAMPLE),
)
async def validate_config(herder: TheHerder, plugin: PluginName, body: Body) -> ConfigInfos:
    """Return every setting with its value and everything that is wrong with it; nothing is created."""
    config = parse_settings(body)
    included = config.get(CLASS_KEY)
    if included is not None and not _short(included).endswith(_short(plugin)):
        raise BadRequest(f"Included connector type {included} does not match request type {plugin}")
    return ConfigInfos.model_validate(await herder.validate(plugin, config))


def _short(name: str) -> str:
    return name.removesuffix(SUFFIX) or name
