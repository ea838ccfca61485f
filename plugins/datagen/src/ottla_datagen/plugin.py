"""The entry point `datagen` of the group `ottla.plugins`."""

from collections.abc import Sequence
from typing import Any

from ottla_datagen import DatagenSource
from ottla_sdk import Connector, hookimpl


@hookimpl
def ottla_connectors() -> Sequence[type[Connector[Any]]]:
    """Return the connector of this plugin."""
    return [DatagenSource]
