"""Settings that stand in environment variables, or in files that these name.

``OTTLA_ETCD_PASSWORD`` is the value of ``etcd.password``, and ``OTTLA_ETCD_PASSWORD_FILE`` the path of a file that
has it, as container engines mount secrets. One line break at the file's end is not part of the value. No message has
the content of such a file.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ottla_core.errors import ConfigurationError

ENVIRONMENT_PREFIX = "OTTLA_"
FILE_SUFFIX = "_FILE"
FILE_BYTES_MAX = 65536
"""Most bytes of a file with one setting; more is a wrong path rather than a value."""


class Keys(NamedTuple):
    """What has to be known of a service's settings to find them among variables; see `ServiceConfig`."""

    known: frozenset[str]
    open_prefixes: Sequence[str]
    open_file_keys: Sequence[str]


class Found(NamedTuple):
    """A setting of the environment.

    Attributes:
        key: which it is.
        value: as it was written.
        origin: where it stands, for people.
        is_from_file: whether a file has the value, which is then shown to nobody.
    """

    key: str
    value: str
    origin: str
    is_from_file: bool


def variable_name(key: str) -> str:
    """Return the environment variable of a key, such as ``OTTLA_LOG_DIRS`` for ``log.dirs``."""
    return ENVIRONMENT_PREFIX + key.replace(".", "_").replace("-", "_").upper()


def environment_settings(keys: Keys, environment: Mapping[str, str]) -> list[Found]:
    """Return the settings that variables, and files named by variables, have.

    Raises:
        ConfigurationError: lists all files that cannot be read, and all settings that stand in both.
    """
    by_variable = {variable_name(key): key for key in keys.known}
    found: dict[str, Found] = {}
    problems: list[str] = []
    for variable, value in environment.items():
        key, is_file = _key_of(variable, keys, by_variable)
        if key is None:
            continue
        origin = f"environment variable {variable}"
        if key in found:
            problems.append(f"{key}: set {variable_name(key)} or {variable_name(key)}{FILE_SUFFIX}, not both")
        elif not is_file:
            found[key] = Found(key, value, origin, is_from_file=False)
        else:
            try:
                found[key] = Found(key, _content(Path(value)), f"file {value}, {origin}", is_from_file=True)
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                problems.append(f"{key}: cannot read the file {value}: {reason} [{origin}]")
    if problems:
        raise ConfigurationError("bad configuration:\n  " + "\n  ".join(problems))
    return [*found.values()]


def _key_of(variable: str, keys: Keys, by_variable: Mapping[str, str]) -> tuple[str | None, bool]:
    """Return the key that a variable is about, if any, and whether it names a file."""
    if variable in by_variable:
        return by_variable[variable], False
    key = _open_key(variable, keys.open_prefixes)
    if key is not None and key.endswith(tuple(keys.open_file_keys)):
        return key, False
    base = variable.removesuffix(FILE_SUFFIX)
    if base == variable:
        return key, False
    if base in by_variable:
        return by_variable[base], True
    return _open_key(base, keys.open_prefixes), True


def _open_key(variable: str, open_prefixes: Sequence[str]) -> str | None:
    """Return the key of a variable that begins with an open prefix: in lower case, with dots for underscores."""
    for prefix in open_prefixes:
        start = variable_name(prefix)
        if variable.startswith(start) and len(variable) > len(start):
            return prefix + variable[len(start) :].lower().replace("_", ".")
    return None


def _content(path: Path) -> str:
    """Return what a file has, without the line break at its end.

    Raises:
        OSError: it cannot be read.
        ValueError: it is too large, or no text.
    """
    with path.open("rb") as opened:
        content = opened.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise ValueError(f"it has more than {FILE_BYTES_MAX} bytes")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise ValueError("it is no text in UTF-8") from None
    return text.removesuffix("\n").removesuffix("\r")
