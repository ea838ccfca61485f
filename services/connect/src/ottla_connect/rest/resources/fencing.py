"""``/connectors/{connector}/fence``: workers ask the leader to fence former tasks of a source (KIP-618)."""

import re

from fastapi import APIRouter, Request

from ottla_connect.rest.options import TheHerder
from ottla_connect.rest.resources.documented import ConnectorName
from ottla_connect.rest.resources.tasks import check_signature
from ottla_core.rest.request_bodies import Body

_INTERNAL = re.compile(r"/connectors/[^/]+/fence")

router = APIRouter(prefix="/connectors/{connector:segment}/fence", tags=["tasks"])


@router.put("", status_code=204, include_in_schema=False)
async def fence_tasks(herder: TheHerder, connector: ConnectorName, body: Body, request: Request) -> None:
    """Fence them; only other workers may ask that, and they sign it (KIP-507)."""
    check_signature(herder, request, body)
    await herder.fence_tasks(connector)


def is_internal(method: str, path: str) -> bool:
    """Return whether only workers may make a request, by the path as it is sent."""
    return method == "PUT" and _INTERNAL.fullmatch(path) is not None
