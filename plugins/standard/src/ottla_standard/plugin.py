"""The hooks of the standard plugins."""

from collections.abc import Sequence
from typing import Any

import ottla_standard
from ottla_sdk import ConfigProvider, Converter, Predicate, Transform, hookimpl


@hookimpl
def ottla_converters() -> Sequence[type[Converter[Any]]]:
    """Return the converters."""
    return ottla_standard.CONVERTERS


@hookimpl
def ottla_transforms() -> Sequence[type[Transform[Any]]]:
    """Return the single message transforms."""
    return ottla_standard.TRANSFORMS


@hookimpl
def ottla_predicates() -> Sequence[type[Predicate[Any]]]:
    """Return the predicates."""
    return ottla_standard.PREDICATES


@hookimpl
def ottla_config_providers() -> Sequence[type[ConfigProvider[Any]]]:
    """Return the config providers."""
    return ottla_standard.CONFIG_PROVIDERS
