"""``/`` and ``/health`` (Kafka's RootResource; KIP-1017)."""

import asyncio

from fastapi import APIRouter, Request, Response

from ottla_connect.rest.entities import ServerInfo, WorkerStatus
from ottla_connect.rest.options import TheHerder
from ottla_core.rest.authentication import is_stranger

HEALTH_TIMEOUT_S = 10.0
HEALTH_STATUSES = {"healthy": 200, "starting": 503, "unhealthy": 500}

router = APIRouter(tags=["worker"])


@router.get("/", summary="The worker's version, and the Kafka cluster that it works for")
async def server_info(herder: TheHerder) -> ServerInfo:
    """Return them; the commit is that of the worker's source."""
    return ServerInfo.of(herder.server_info())


@router.get(
    "/health",
    summary="Whether the worker works",
    responses={
        503: {"model": WorkerStatus, "description": "It is still starting."},
        500: {"model": WorkerStatus, "description": "It does not work."},
    },
)
async def health(herder: TheHerder, request: Request, response: Response) -> WorkerStatus:
    """Tell whether the worker is a member of its group and reads the cluster's state."""
    try:
        async with asyncio.timeout(HEALTH_TIMEOUT_S):
            found = await herder.health()
    except TimeoutError:
        found_status, message = "unhealthy", f"The worker did not answer within {HEALTH_TIMEOUT_S:.0f} s."
    else:
        found_status, message = found.status, found.message
    if found_status == "unhealthy" and is_stranger(request):
        message = "The worker's log says why."
    response.status_code = HEALTH_STATUSES[found_status]
    return WorkerStatus.model_validate({"status": found_status, "message": message})
