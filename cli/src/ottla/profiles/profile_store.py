"""The file that keeps profiles: `$XDG_CONFIG_HOME/ottla/profiles.json`, readable by its owner only.

{"current": "prod", "profiles": {"prod": {"bootstrap": "kafka:9092", "client": {"security.protocol": "ssl"}}}}
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ottla.profiles.profile import BadProfile, Profile
from ottla_operations.errors import OperationError

MODE = 0o600
SECRET_LENGTH_MAX = 65_536


@dataclass(frozen=True, slots=True)
class Profiles:
    """All profiles.

    Attributes:
        current: the one that is used where none is named, or None.
    """

    current: str | None
    by_name: Mapping[str, Profile]


def profiles_file() -> Path:
    """Return where profiles are kept."""
    config_home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(config_home) / "ottla" / "profiles.json"


def read_profiles() -> Profiles:
    """Return what is kept; nothing if there is no file.

    Raises:
        OperationError: the file cannot be read, or something else stands there.
    """
    file = profiles_file()
    try:
        text = file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return Profiles(None, {})
    except (OSError, UnicodeDecodeError) as error:
        raise OperationError(f"cannot read the profiles in {file}: {error}") from None
    try:
        document = json.loads(text)
        found = {name: _read(name, each) for name, each in document["profiles"].items()}
        current = document.get("current")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise OperationError(f"cannot read the profiles in {file}: {error}") from None
    return Profiles(current if current in found else None, found)


def write_profiles(profiles: Profiles) -> None:
    """Keep profiles in place of those before; a reader sees these or those.

    Raises:
        OperationError: the file cannot be written.
    """
    file = profiles_file()
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    document = {
        "current": profiles.current,
        "profiles": {name: each.to_document() for name, each in sorted(profiles.by_name.items())},
    }
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(json.dumps(document, indent=2) + "\n")
        draft.replace(file)
    except OSError as error:
        raise OperationError(f"cannot write the profiles to {file}: {error.strerror}") from None


def look_up(kind: str, name: str) -> str:
    """Return what a reference stands for: a variable of the environment, or the content of a file without its end.

    Raises:
        BadProfile: there is no such variable, or the file cannot be read.
    """
    if kind == "env":
        value = os.environ.get(name)
        if value is None:
            raise BadProfile(f"${{env:{name}}} stands for a variable of the environment that is not set")
        return value
    try:
        with Path(name).expanduser().open(encoding="utf-8") as file:
            return file.read(SECRET_LENGTH_MAX).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadProfile(f"${{file:{name}}} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _read(name: str, document: object) -> Profile:
    try:
        return Profile.from_document(document)
    except BadProfile as problem:
        raise BadProfile(f"profile {name}: {problem}") from None
