"""The entry point `sql` of the group `ottla.plugins`."""

from collections.abc import Sequence
from typing import Any

from ottla_sdk import Connector, Transform, hookimpl
from ottla_sql import SoftDelete, SqlSink, SqlSource


@hookimpl
def ottla_connectors() -> Sequence[type[Connector[Any]]]:
    """Return the connectors of this plugin."""
    return [SqlSource, SqlSink]


@hookimpl
def ottla_transforms() -> Sequence[type[Transform[Any]]]:
    """Return the transforms of this plugin."""
    return [SoftDelete]
