"""The connectors that a standalone worker is told to run, from properties or JSON files (as `connect-standalone`)."""

import json
from collections.abc import Sequence
from pathlib import Path

from ottla_connect.herder.connector_changes import NAME_KEY
from ottla_connect.herder.herder import WorkerHerder
from ottla_core.errors import ConfigurationError
from ottla_core.properties_file import read_properties
from ottla_core.rest.errors import RequestError


async def put_connectors(herder: WorkerHerder, files: Sequence[str]) -> None:
    """Create or change the connectors of these files.

    Raises:
        ConfigurationError: a file cannot be read, or its connector is not valid.
    """
    for file in files:
        config = read_connector(Path(file))
        try:
            await herder.put_connector_config(config[NAME_KEY], config)
        except RequestError as error:
            raise ConfigurationError(f"{file}: {error.message}") from None


def read_connector(path: Path) -> dict[str, str]:
    """Return a connector's settings, its name among them.

    A JSON file holds either the settings, or their name and `config` as the REST API takes them.

    Raises:
        ConfigurationError: the file cannot be read or names no connector.
    """
    config = _read_json(path) if path.suffix == ".json" else read_properties(path)
    if not config.get(NAME_KEY, "").strip():
        raise ConfigurationError(f"{path}: the connector has no {NAME_KEY}")
    return config


def _read_json(path: Path) -> dict[str, str]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot read the connector in {path}: {error}") from None
    if isinstance(document, dict) and isinstance(document.get("config"), dict):
        document = {NAME_KEY: document.get(NAME_KEY), **document["config"]}
    if not isinstance(document, dict) or not all(isinstance(each, str) for each in document.values()):
        raise ConfigurationError(f"{path}: write a connector as an object of strings, or as name and config")
    return document
