"""Where a connector is, and having a stopped one begin anew: what goes is shown first."""

from typing import Any, Final

from starlette.responses import Response

from ottla_console.pages.connect_access import ask_workers, change_by_workers, connector_of, look
from ottla_console.pages.connector import render_connector
from ottla_console.pages.routing import View
from ottla_console.pages.visit import Visit
from ottla_console.views.connector_offsets import offset_rows, offsets_mark
from ottla_console.views.paging import page_number, page_of
from ottla_operations.errors import OperationError
from ottla_operations.workers.connect_client import ConnectClient, connector_path

WITHIN_S: Final = 20.0
"""For offsets a worker asks its cluster."""


async def show(visit: Visit) -> Response:
    """Show a connector's offsets, and with ``reset`` in the address what a reset takes away."""
    connector = await connector_of(visit)
    offsets = await ask_workers(visit, lambda client: _offsets(client, connector.name), within_s=WITHIN_S)
    return render_connector(
        visit,
        connector,
        "connector_offsets.html",
        "offsets",
        shown=page_of(offset_rows(offsets), page_number(visit.query("page", "1"))),
        mark=offsets_mark(offsets),
        is_preview=bool(visit.query("reset")),
    )


async def reset(visit: Visit) -> Response:
    """Remove the offsets that were shown, unless the connector runs or has others by now."""
    name = visit.request.path_params["connector"]
    mark = visit.form.get("mark", "")

    def effect(client: ConnectClient) -> Any:
        if not look(client, name).is_stopped:
            raise OperationError(f"nothing was changed: {name} is not stopped; stop it first")
        if offsets_mark(_offsets(client, name)) != mark:
            raise OperationError(f"nothing was changed: {name} has other offsets by now; look at them again")
        # One that somebody resumes at this moment keeps its offsets, as workers look at its state again.
        return client.ask("DELETE", connector_path(name, "offsets"))

    await change_by_workers(visit, "connector.reset-offsets", name, effect)
    return visit.redirect(
        visit.address("connect", "connectors", name, "offsets"),
        notice=f"Connector {name} begins anew once it is resumed.",
    )


def _offsets(client: ConnectClient, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(connector_path(name, "offsets"))["offsets"]
    return found


VIEWS: Final = (
    View("/connect/connectors/{connector:segment}/offsets", show, "connect"),
    View("/connect/connectors/{connector:segment}/offsets", reset, "connect", method="POST"),
)
"""A connector's offsets."""
