"""Connect: the connectors of a cluster, the workers that run them, the plugins that can be run."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.clusters.connect_workers import one_client
from ottla_console.pages.connect_access import all_connectors, ask_workers, may_change
from ottla_console.pages.routing import View
from ottla_console.pages.visit import Visit
from ottla_console.views.connector_table import (
    AskedWorker,
    connector_rows,
    selected_connectors,
    worker_rows,
)
from ottla_console.views.paging import page_number, page_of
from ottla_operations.errors import OperationError
from ottla_operations.url_redaction import without_login
from ottla_operations.workers.connect_client import ConnectClient
from ottla_operations.workers.worker_client import Refused

WORKER_WITHIN_S: Final = 8.0
WORKERS_ASKED_MAX: Final = 16
STATES: Final = {
    "": "All",
    "problem": "With problems",
    "RUNNING": "Running",
    "PAUSED": "Paused",
    "STOPPED": "Stopped",
    "FAILED": "Failed",
}


async def connectors(visit: Visit) -> Response:
    """Show a page of the connectors that a query wants."""
    if visit.cluster.connect_url is None:
        return visit.render("connect_unknown.html")
    rows = connector_rows(await all_connectors(visit))
    words, state = visit.query("q"), visit.query("state")
    return visit.render(
        "connect.html",
        tab="connectors",
        words=words,
        state=state,
        states=STATES,
        total=len(rows),
        shown=page_of(selected_connectors(rows, words, state), page_number(visit.query("page", "1"))),
        may_change=may_change(visit),
    )


async def workers(visit: Visit) -> Response:
    """Show the workers of the settings, and others that run something."""
    if visit.cluster.connect_url is None:
        return visit.render("connect_unknown.html")
    urls = [each.strip() for each in visit.cluster.connect_url.split(",") if each.strip()][:WORKERS_ASKED_MAX]
    expanded: Mapping[str, Mapping[str, Any]] | None = None
    problem = None
    asked = await asyncio.gather(*(_asked(visit, url) for url in urls))
    try:
        expanded = await all_connectors(visit)
    except OperationError as error:
        problem = str(error)
    return visit.render("connect_workers.html", tab="workers", rows=worker_rows(asked, expanded), problem=problem)


async def plugins(visit: Visit) -> Response:
    """Show the plugin classes that are installed on a worker."""
    if visit.cluster.connect_url is None:
        return visit.render("connect_unknown.html")
    found = await ask_workers(visit, lambda client: client.get("/connector-plugins", connectorsOnly="false"))
    words = visit.query("q").lower().split()
    ordered = sorted(found, key=lambda each: (each["type"] not in ("source", "sink"), each["type"], each["class"]))
    chosen = [each for each in ordered if all(word in f"{each['class']} {each['type']}".lower() for word in words)]
    return visit.render(
        "connect_plugins.html",
        tab="plugins",
        words=visit.query("q"),
        shown=page_of(chosen, page_number(visit.query("page", "1"))),
        may_change=may_change(visit),
    )


async def _asked(visit: Visit, url: str) -> AskedWorker:
    def question(kit: ClusterKit) -> AskedWorker:
        client = one_client(kit.settings, url)
        try:
            version = str(client.get("/")["version"])
            return AskedWorker(url=without_login(url), version=version, health=_health(client))
        finally:
            client.close()

    try:
        return await visit.ask(question, within_s=WORKER_WITHIN_S)
    except OperationError as error:
        return AskedWorker(url=without_login(url), problem=str(error))


def _health(client: ConnectClient) -> str:
    """Return what a worker says of its health; of Kafka 3.8 and older nothing."""
    try:
        return str(client.get("/health")["status"])
    except Refused as refusal:
        return "" if refusal.status == 404 else "unhealthy"


VIEWS: Final = (
    View("/connect", connectors, "connect"),
    View("/connect/workers", workers, "connect"),
    View("/connect/plugins", plugins, "connect"),
)
"""Connect's pages that belong to no connector."""
