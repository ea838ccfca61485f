"""`${provider:path:key}` in settings: found, replaced by their values, and put back (Kafka's ConfigTransformer).

Pure.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

_PATTERN = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")


class Reference(NamedTuple):
    """A reference to a value that a config provider has; the path is empty if it has none."""

    provider: str
    path: str
    key: str

    @classmethod
    def of(cls, match: re.Match[str]) -> "Reference":
        """Return what the pattern has matched."""
        return cls(match[1], match[2] or "", match[3])


def has_reference(value: str) -> bool:
    """Return whether a setting refers to a config provider."""
    return _PATTERN.search(value) is not None


def references(value: str) -> list[Reference]:
    """Return the references in a setting, in their order."""
    return [Reference.of(match) for match in _PATTERN.finditer(value)]


def replaced(value: str, look_up: Callable[[Reference], str | None]) -> str:
    """Return a setting with its references replaced; one that `look_up` answers with None stays."""

    def replacement(match: re.Match[str]) -> str:
        found = look_up(Reference.of(match))
        return match[0] if found is None else found

    return _PATTERN.sub(replacement, value)


def put_back(
    settings: Mapping[str, str],
    written: Mapping[str, str],
    resolved: Mapping[str, str],
    restored: Callable[[str], str],
) -> dict[str, str]:
    """Return a task's settings with references where a connector has copied or used settings that have them.

    Args:
        settings: what the connector wants the task to have.
        written: the connector's settings as users wrote them.
        resolved: the same with references replaced.
        restored: puts references into a value of another key.
    """
    return {
        key: written[key] if key in written and resolved.get(key) == value else restored(value)
        for key, value in settings.items()
    }
