"""The hooks of the converters that use a schema registry."""

from collections.abc import Sequence
from typing import Any

import ottla_schema_registry
from ottla_sdk import Converter, hookimpl


@hookimpl
def ottla_converters() -> Sequence[type[Converter[Any]]]:
    """Return the converters."""
    return ottla_schema_registry.CONVERTERS
