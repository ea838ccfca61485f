"""Putting secrets in the place of the references in a link's settings.

Cluster state and whoever asks for it see `${provider:path:key}`. Each broker looks the values up itself, when it
connects: `env` takes environment variables of the broker, `${env:NAME}`, and `file` a key of a properties file,
`${file:/path:key}`, or with the key left out the whole file, `${file:/path}`.
"""

import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from ottla_core.errors import ConfigurationError

_REFERENCE: Final = re.compile(r"\$\{([^}:]*):([^}]*)\}")
FILE_BYTES_MAX: Final = 1024 * 1024


def resolved(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings with values in the place of their references; reads files.

    Raises:
        ConfigurationError: one cannot be resolved; the message names it and no value.
    """
    return {name: _REFERENCE.sub(partial(_value, name), value) for name, value in settings.items()}


def is_reference(value: str) -> bool:
    """Return whether a setting's value is a reference and nothing else."""
    return _REFERENCE.fullmatch(value) is not None


def _value(name: str, found: "re.Match[str]") -> str:
    provider, rest = found[1], found[2]
    if provider == "env":
        value = os.environ.get(rest)
        if value is None:
            raise ConfigurationError(f"{name}: {found[0]}: the broker has no such environment variable")
        return value
    if provider == "file":
        return _from_file(name, found[0], rest)
    raise ConfigurationError(f"{name}: {found[0]}: there is no config provider '{provider}' here; env and file are")


def _from_file(name: str, reference: str, rest: str) -> str:
    path, _, key = rest.partition(":")
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(FILE_BYTES_MAX)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise ConfigurationError(f"{name}: {reference}: {reason}") from None
    if not key:
        return text.rstrip("\n")
    for line in text.splitlines():
        left, separator, right = line.partition("=")
        if separator and left.strip() == key:
            return right.strip()
    raise ConfigurationError(f"{name}: {reference}: the file has no such key")
