"""The entry point `file` of the group `ottla.plugins`."""

from collections.abc import Sequence
from typing import Any

from ottla_file import FileSink, FileSource
from ottla_sdk import Connector, hookimpl


@hookimpl
def ottla_connectors() -> Sequence[type[Connector[Any]]]:
    """Return the connectors of this plugin."""
    return [FileSource, FileSink]
