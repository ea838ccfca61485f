"""``/admin/loggers``: log levels while the worker runs (KIP-495, KIP-976)."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from ottla_connect.rest.entities import LoggerLevel, WantedLevel
from ottla_connect.rest.json_bodies import parse_level
from ottla_connect.rest.options import TheHerder
from ottla_connect.rest.resources.documented import errors, takes
from ottla_core.rest.request_bodies import Body

CLUSTER_SCOPE = "cluster"

LoggerName = Annotated[str, Path(alias="logger", description="The logger's name; root stands above all others.")]

router = APIRouter(prefix="/admin/loggers", tags=["log levels"])


@router.get("", summary="The loggers whose level was set", responses=errors())
async def list_loggers(herder: TheHerder) -> dict[str, LoggerLevel]:
    """List them, and the root logger."""
    return {name: LoggerLevel.of(level) for name, level in herder.loggers().items()}


@router.get("/{logger:segment}", summary="The level of a logger", responses=errors(404))
async def logger_level(herder: TheHerder, logger: LoggerName) -> LoggerLevel:
    """Return its own level, or the one that it has from the loggers above it."""
    return LoggerLevel.of(herder.logger_level(logger))


@router.put(
    "/{logger:segment}",
    summary="Set the level of a logger and of those below it",
    response_model=list[str],
    responses={204: {"description": "Set on all workers."}, **errors(400, 404)},
    openapi_extra=takes(WantedLevel, {"level": "DEBUG"}),
)
async def set_logger_level(
    herder: TheHerder,
    logger: LoggerName,
    body: Body,
    scope: Annotated[str, Query(description="worker: this one alone; cluster: all.")] = "worker",
) -> list[str] | Response:
    """Set it until the worker ends; returns the loggers that it affects."""
    for_all = scope.lower() == CLUSTER_SCOPE
    affected = await herder.set_logger_level(logger, parse_level(body), cluster=for_all)
    return Response(status_code=204) if for_all else list(affected)
