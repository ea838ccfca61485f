"""``/connectors/{connector}/tasks`` (Kafka's ConnectorsResource), and what workers ask the leader to store there."""

import re

from fastapi import APIRouter, Depends, Request

from ottla_connect.herder.api import Herder
from ottla_connect.herder.signatures import ALGORITHM_HEADER, SIGNATURE_HEADER
from ottla_connect.ids import TaskId
from ottla_connect.rest.entities import TaskInfo, TaskState, task_infos
from ottla_connect.rest.json_bodies import parse_task_configs
from ottla_connect.rest.options import TheHerder
from ottla_connect.rest.resources.documented import ConnectorName, TaskNumber, errors
from ottla_core.rest.errors import BadRequest, NotFound
from ottla_core.rest.request_bodies import Body, check_media_type

_INTERNAL = re.compile(r"/connectors/[^/]+/tasks")

router = APIRouter(prefix="/connectors/{connector:segment}/tasks", tags=["tasks"])


@router.get("", summary="A connector's tasks and their settings", responses=errors(404))
async def list_tasks(herder: TheHerder, connector: ConnectorName) -> list[TaskInfo]:
    """Return them by number."""
    return task_infos(herder.task_configs(connector))


@router.get(
    "/{task:segment}/status",
    summary="The state of a task",
    response_model_exclude_none=True,
    responses=errors(404),
)
async def task_status(herder: TheHerder, connector: ConnectorName, task: TaskNumber) -> TaskState:
    """Return it as its worker said last."""
    task_id = task_id_of(connector, task)
    return TaskState.of(task_id.task, herder.task_status(task_id))


@router.post(
    "/{task:segment}/restart",
    status_code=204,
    summary="Restart a task",
    responses=errors(404, 409),
    dependencies=[Depends(check_media_type)],
)
async def restart_task(herder: TheHerder, connector: ConnectorName, task: TaskNumber) -> None:
    """Restart it, whatever its state."""
    await herder.restart_task(task_id_of(connector, task))


@router.api_route("", methods=["POST", "PUT"], status_code=204, include_in_schema=False)
async def put_task_configs(herder: TheHerder, connector: ConnectorName, body: Body, request: Request) -> None:
    """Store what a connector's tasks shall do; only other workers may ask that, and they sign it (KIP-507)."""
    check_signature(herder, request, body)
    await herder.put_task_configs(connector, parse_task_configs(body))


def check_signature(herder: Herder, request: Request, body: bytes) -> None:
    """Return if another worker has signed a request (KIP-507).

    Raises:
        RequestError: nobody has, or somebody else.
    """
    signature, algorithm = request.headers.get(SIGNATURE_HEADER), request.headers.get(ALGORITHM_HEADER)
    if signature is None or algorithm is None:
        raise BadRequest("Internal request missing required signature")
    path = request.scope["raw_path"].decode("ascii")
    herder.check_signature(request.method, path, body, signature, algorithm)


def is_internal(method: str, path: str) -> bool:
    """Return whether only workers may make a request, by the path as it is sent."""
    return method in ("POST", "PUT") and _INTERNAL.fullmatch(path) is not None


def task_id_of(connector: str, task: str) -> TaskId:
    """Return the id of a task.

    Raises:
        NotFound: the task's number is no number.
    """
    if not task.isascii() or not task.isdecimal():
        raise NotFound(f"HTTP 404 Not Found: {task} is no task's number")
    return TaskId(connector, int(task))
