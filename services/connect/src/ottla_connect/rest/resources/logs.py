"""``/connectors/{connector}/logs``: what a connector or task has logged last. Kafka Connect has no such thing."""

from typing import Annotated

from fastapi import APIRouter, Query

from ottla_connect.rest.entities import LogLines
from ottla_connect.rest.options import TheHerder
from ottla_connect.rest.resources.documented import ConnectorName, errors
from ottla_core.rest.errors import BadRequest

LINES_DEFAULT = 100
LINES_MAX = 10_000

router = APIRouter(prefix="/connectors/{connector:segment}/logs", tags=["logs"])


@router.get("", summary="The last log lines of a connector, or of one of its tasks", responses=errors(400, 404))
async def connector_logs(
    herder: TheHerder,
    connector: ConnectorName,
    task: Annotated[
        str | None, Query(description="The task's number; without it, the connector's own process.")
    ] = None,
    lines: Annotated[str, Query(description=f"How many lines at most, up to {LINES_MAX:,}.")] = str(LINES_DEFAULT),
) -> LogLines:
    """Return them, the oldest first, from the worker that runs it; a worker keeps them in memory only."""
    number = None if task is None else _number("task", task)
    count = min(_number("lines", lines), LINES_MAX)
    return LogLines(connector=connector, task=number, lines=list(await herder.logs(connector, number, count)))


def _number(parameter: str, text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise BadRequest(f"{parameter} must be a whole number, not {text[:50]!r}")
    return int(text)
