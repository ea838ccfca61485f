"""References in what a person's commands are told: `${env:NAME}` and `${file:PATH}`, looked up when they are used."""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

FILE_BYTES_MAX: Final = 64 * 1024
REFERENCE: Final = re.compile(r"\$\{(env|file):([^}]+)\}")


class BadReference(Exception):
    """A reference leads nowhere, or a file cannot be read; the message says why, without any value."""


def resolved(text: str, environment: Mapping[str, str]) -> str:
    """Return a text with what its references stand for.

    Raises:
        BadReference: one leads nowhere.
    """
    return REFERENCE.sub(partial(_looked_up, environment), text)


def content_of(file: str) -> str:
    """Return what stands in a small file.

    Raises:
        BadReference: it cannot be read, has more than `FILE_BYTES_MAX`, or is no text.
    """
    try:
        with Path(file).expanduser().open("rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise BadReference(f"{file} has more than {FILE_BYTES_MAX} bytes")
        return content.decode()
    except OSError as error:
        raise BadReference(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadReference(f"{file} is no text in UTF-8") from None


def _looked_up(environment: Mapping[str, str], found: re.Match[str]) -> str:
    kind, name = found.groups()
    if kind == "file":
        return content_of(name).rstrip("\r\n")
    if name not in environment:
        raise BadReference(f"there is no variable {name} in the environment")
    return environment[name]
