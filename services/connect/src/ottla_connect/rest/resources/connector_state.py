"""A connector's status, and what changes it: pause, resume, stop, restart (Kafka's ConnectorsResource)."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from ottla_connect.connector_states import TargetState
from ottla_connect.rest.entities import ConnectorStateInfo
from ottla_connect.rest.options import Flag, TheHerder
from ottla_connect.rest.resources.documented import ConnectorName, errors
from ottla_core.rest.request_bodies import check_media_type

router = APIRouter(prefix="/connectors/{connector:segment}", tags=["state"], dependencies=[Depends(check_media_type)])


@router.get(
    "/status",
    summary="The state of a connector and its tasks",
    response_model_exclude_none=True,
    responses=errors(404),
)
async def connector_status(herder: TheHerder, connector: ConnectorName) -> ConnectorStateInfo:
    """Return it as the workers said last."""
    return ConnectorStateInfo.of(herder.connector_status(connector))


@router.put(
    "/pause", status_code=202, summary="Pause a connector", responses=errors(404, 409), response_class=Response
)
async def pause_connector(herder: TheHerder, connector: ConnectorName) -> None:
    """Have its tasks keep their resources but do nothing. Paused again, it stays paused."""
    await herder.set_target_state(connector, TargetState.PAUSED)


@router.put(
    "/resume", status_code=202, summary="Resume a connector", responses=errors(404, 409), response_class=Response
)
async def resume_connector(herder: TheHerder, connector: ConnectorName) -> None:
    """Have it run again, whether it was paused or stopped."""
    await herder.set_target_state(connector, TargetState.STARTED)


@router.put("/stop", status_code=204, summary="Stop a connector", responses=errors(404, 409))
async def stop_connector(herder: TheHerder, connector: ConnectorName) -> None:
    """End its tasks; its settings and offsets stay, and its offsets can be changed (KIP-875)."""
    await herder.set_target_state(connector, TargetState.STOPPED)


@router.post(
    "/restart",
    status_code=202,
    summary="Restart a connector, and its tasks",
    response_model=ConnectorStateInfo,
    response_model_exclude_none=True,
    responses={204: {"description": "The connector alone has been restarted."}, **errors(404, 409)},
)
async def restart_connector(
    herder: TheHerder,
    connector: ConnectorName,
    include_tasks: Annotated[Flag, Query(alias="includeTasks", description="Whether tasks restart as well.")] = False,
    only_failed: Annotated[Flag, Query(alias="onlyFailed", description="Whether only what has failed does.")] = False,
) -> ConnectorStateInfo | Response:
    """Restart it (KIP-745); the answer says which parts will be restarted, if it may be more than the connector."""
    planned = await herder.restart_connector(connector, include_tasks=include_tasks, only_failed=only_failed)
    return Response(status_code=204) if planned is None else ConnectorStateInfo.of(planned)
