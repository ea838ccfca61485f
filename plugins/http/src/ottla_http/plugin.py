"""The entry point `http` of the group `ottla.plugins`."""

from collections.abc import Sequence
from typing import Any

from ottla_http import HttpSink, HttpSource
from ottla_sdk import Connector, hookimpl


@hookimpl
def ottla_connectors() -> Sequence[type[Connector[Any]]]:
    """Return the connectors of this plugin."""
    return [HttpSource, HttpSink]
