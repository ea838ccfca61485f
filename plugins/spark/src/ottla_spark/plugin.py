"""The entry point `spark` of the group `ottla.plugins`."""

from collections.abc import Sequence
from typing import Any

from ottla_sdk import Connector, hookimpl
from ottla_spark import SparkPipeline, SparkSink, SparkSource


@hookimpl
def ottla_connectors() -> Sequence[type[Connector[Any]]]:
    """Return the connectors of this plugin."""
    return [SparkSource, SparkSink, SparkPipeline]
