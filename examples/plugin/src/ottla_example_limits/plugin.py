"""What workers ask this plugin; pyproject.toml names this module as an entry point."""

from collections.abc import Sequence
from typing import Any

from ottla_example_limits.above_limit import AboveLimit
from ottla_sdk import Predicate, hookimpl


@hookimpl
def ottla_predicates() -> Sequence[type[Predicate[Any]]]:
    """Return the predicates of this plugin."""
    return [AboveLimit]
