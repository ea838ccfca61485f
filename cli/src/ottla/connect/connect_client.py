"""How `ottla connect` reaches the workers: Kafka Connect's REST API."""

from collections.abc import Sequence
from typing import Annotated
from urllib.parse import quote

import typer

from ottla.worker_client import Refused, WorkerClient, WorkerKind

__all__ = ["ConnectClient", "Refused"]

URL_DEFAULT = "http://127.0.0.1:8083"
URL_VARIABLE = "OTTLA_CONNECT_URL"

Url = Annotated[
    str,
    typer.Option(
        "--connect-url",
        "--url",
        envvar=URL_VARIABLE,
        metavar="URL[,…]",
        help="Where a worker listens; of several the first that is there.",
    ),
]


class ConnectClient(WorkerClient):
    """A connection to Connect workers."""

    kind = WorkerKind(
        name="Connect worker", option="--connect-url", start="ottla up --connect 1", mark=frozenset({"version"})
    )


def connector_path(name: str, *below: str) -> str:
    """Return the path of a connector, or of something below it."""
    return "/".join(["/connectors", quote(name, safe=""), *below])


def plugin_path(plugin: str, *below: str) -> str:
    """Return the path of a plugin class, or of something below it."""
    return "/".join(["/connector-plugins", quote(plugin, safe=""), *below])


def existing_names(client: ConnectClient, names: Sequence[str]) -> list[str]:
    """Return the named connectors, or all if none is named."""
    return list(names) or sorted(client.get("/connectors"))
