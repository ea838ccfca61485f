"""One connector: state and tasks, settings, logs."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from ottla_console.pages.connect_access import Connector, ask_workers, connector_of, may_change
from ottla_console.pages.routing import View
from ottla_console.pages.visit import BadForm, Visit
from ottla_console.views.connector import (
    connector_parts,
    dead_letter_topic,
    has_failed,
    secret_keys,
    shown_config,
)
from ottla_console.views.connector_table import CLASS_KEY
from ottla_operations.errors import OperationError
from ottla_operations.workers.connect_client import ConnectClient, connector_path, plugin_path
from ottla_operations.workers.worker_client import Refused

LOG_LINES: Final = 300
OWN_PROCESS: Final = "connector"


async def show(visit: Visit) -> Response:
    """Show a connector's state and its tasks."""
    connector = await connector_of(visit)
    parts = connector_parts(connector.status)
    error = next((each for each in parts if each.trace and each.title == visit.query("error")), None)
    return render_connector(
        visit,
        connector,
        "connector.html",
        "state",
        parts=parts,
        process=parts[0],
        has_failed=has_failed(connector.status),
        error=error,
    )


async def config(visit: Visit) -> Response:
    """Show a connector's settings; none of its secrets."""
    connector = await connector_of(visit)
    definitions = await ask_workers(visit, lambda client: definitions_of(client, connector.config))
    secrets = secret_keys(connector.config, definitions)
    return render_connector(
        visit,
        connector,
        "connector_config.html",
        "config",
        settings=shown_config(connector.config, secrets),
        secrets=secrets,
        are_defined=definitions is not None,
    )


async def logs(visit: Visit) -> Response:
    """Show what the connector's own process, or a task, has logged last."""
    connector = await connector_of(visit)
    of = visit.query("of", "0" if connector.status["tasks"] else OWN_PROCESS)
    if of != OWN_PROCESS and not (of.isascii() and of.isdecimal() and len(of) < 10):
        raise BadForm("of: it is connector, or the number of a task")
    lines: list[str] = []
    problem = None
    try:
        lines = await ask_workers(visit, lambda client: _logged(client, connector.name, of))
    except OperationError as error:
        problem = str(error)
    numbers = [str(each["id"]) for each in connector.status["tasks"]]
    return render_connector(
        visit,
        connector,
        "connector_logs.html",
        "logs",
        lines=lines,
        problem=problem,
        of=of,
        choices={OWN_PROCESS: "The connector", **{each: f"Task {each}" for each in numbers}},
    )


def render_connector(visit: Visit, connector: Connector, template: str, tab: str, **model: Any) -> Response:
    """Return a page of a connector, with its title, actions and tabs."""
    return visit.render(
        template,
        connector=connector,
        tab=tab,
        dead_letters=dead_letter_topic(connector.config, connector.type),
        may_change=may_change(visit),
        **model,
    )


def definitions_of(client: ConnectClient, config: Mapping[str, str]) -> list[dict[str, Any]] | None:
    """Return how the plugin of some settings defines them; None where it is not installed, or cannot be imported."""
    try:
        found: list[dict[str, Any]] = client.get(plugin_path(config.get(CLASS_KEY, ""), "config"))
    except Refused:
        return None
    return found


def _logged(client: ConnectClient, name: str, of: str) -> list[str]:
    task = None if of == OWN_PROCESS else of
    lines: list[str] = client.get(connector_path(name, "logs"), task=task, lines=str(LOG_LINES))["lines"]
    return lines


VIEWS: Final = (
    View("/connect/connectors/{connector:segment}", show, "connect"),
    View("/connect/connectors/{connector:segment}/config", config, "connect"),
    View("/connect/connectors/{connector:segment}/logs", logs, "connect"),
)
"""The pages of a connector that only show."""
