"""What is done to a connector: restarted, paused, resumed, stopped, deleted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from ottla_console.pages.connect_access import change_by_workers
from ottla_console.pages.routing import View
from ottla_console.pages.visit import NotFound, Visit
from ottla_operations.workers.connect_client import connector_path


@dataclass(frozen=True, slots=True)
class _Verb:
    """How workers are asked, and what is said afterwards."""

    method: str
    path: str
    done: str
    query: Mapping[str, str] | None = None


VERBS: Final[Mapping[str, _Verb]] = {
    "pause": _Verb("PUT", "pause", "is being paused"),
    "resume": _Verb("PUT", "resume", "is being resumed"),
    "stop": _Verb("PUT", "stop", "is being stopped"),
    "restart": _Verb("POST", "restart", "and its tasks are being restarted", {"includeTasks": "true"}),
    "restart-failed": _Verb(
        "POST", "restart", "restarts what has failed", {"includeTasks": "true", "onlyFailed": "true"}
    ),
}
DIGITS_MAX: Final = 9


async def act(visit: Visit) -> Response:
    """Have the workers do what the address says."""
    name, word = visit.request.path_params["connector"], visit.request.path_params["verb"]
    if word not in VERBS:
        raise NotFound(f"a connector can be asked to {', '.join(VERBS)}")
    verb = VERBS[word]
    await change_by_workers(
        visit,
        f"connector.{word}",
        name,
        lambda client: client.ask(verb.method, connector_path(name, verb.path), query=verb.query),
    )
    return visit.redirect(visit.address("connect", "connectors", name), notice=f"Connector {name} {verb.done}.")


async def restart_task(visit: Visit) -> Response:
    """Restart one task."""
    name, task = visit.request.path_params["connector"], visit.request.path_params["task"]
    if not (task.isascii() and task.isdecimal() and len(task) <= DIGITS_MAX):
        raise NotFound("tasks have numbers")
    await change_by_workers(
        visit,
        "connector.restart-task",
        name,
        lambda client: client.ask("POST", connector_path(name, "tasks", task, "restart")),
        task=int(task),
    )
    address = visit.address("connect", "connectors", name)
    return visit.redirect(address, notice=f"Task {task} of {name} is being restarted.")


async def delete(visit: Visit) -> Response:
    """Delete a connector whose name was typed."""
    name = visit.request.path_params["connector"]
    await change_by_workers(
        visit,
        "connector.delete",
        name,
        lambda client: client.ask("DELETE", connector_path(name)),
        needed=name,
    )
    return visit.redirect(visit.address("connect"), notice=f"Connector {name} was deleted.")


VIEWS: Final = (
    View("/connect/connectors/{connector:segment}/delete", delete, "connect", method="POST"),
    View("/connect/connectors/{connector:segment}/do/{verb:segment}", act, "connect", method="POST"),
    View(
        "/connect/connectors/{connector:segment}/tasks/{task:segment}/restart", restart_task, "connect", method="POST"
    ),
)
"""Every change of a connector that needs no form."""
