"""How Connect workers are reached: Kafka Connect's REST API."""

from collections.abc import Sequence
from urllib.parse import quote

from ottla_operations.workers.worker_client import WorkerClient, WorkerKind


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
