"""Who asks a REST API, and what they may do there. Pure.

There are two roles: who may do everything, and who may read only. A user who is known and named nowhere reads only.
"""

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

READING_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
EVERYBODY: Final = "*"
OPEN_PATHS: Final = frozenset({"/health"})
"""What load balancers and containers ask; it tells nothing but whether the worker works."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever has proved who they are.

    Attributes:
        name: of the user, without ``User:``.
    """

    name: str


def parse_administrators(text: str) -> frozenset[str]:
    """Return the names in a list such as ``User:ann;User:CN=ops,O=Flights``; `EVERYBODY` stays what it is.

    Raises:
        ValueError: an entry is no user.
    """
    names = set()
    for entry in (each.strip() for each in text.split(";") if each.strip()):
        kind, colon, name = entry.partition(":")
        if entry != EVERYBODY and (kind != "User" or not colon or not name):
            raise ValueError(f"write users as User:NAME, separated by semicolons, or *; not {entry!r}")
        names.add(name if colon else entry)
    return frozenset(names)


def may(caller: Caller, method: str, administrators: frozenset[str]) -> bool:
    """Return whether a user may have a request of a method carried out."""
    return method in READING_METHODS or EVERYBODY in administrators or caller.name in administrators


def is_of_another_site(method: str, headers: Mapping[str, str], allowed_origins: frozenset[str]) -> bool:
    """Return whether a page of another site has a browser ask for a change.

    A browser shows a certificate, or a password that it was told, for every page. Some changes need no body, so
    that it asks nobody before it sends them.

    Args:
        method: of the request.
        headers: by their names in lower case.
        allowed_origins: sites whose pages may; `EVERYBODY` among them for all.
    """
    origin = headers.get("origin")
    if origin is None or method in READING_METHODS or {origin, EVERYBODY} & allowed_origins:
        return False
    return urlsplit(origin).netloc != headers.get("host", "")


def basic_credentials(header: str) -> tuple[str, str] | None:
    """Return the user and password of an ``Authorization`` header (RFC 7617), None if it has none."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (NotBase64, ValueError):
        return None
    return (user, password) if colon else None


def bearer_token(header: str) -> str | None:
    """Return the token of an ``Authorization`` header (RFC 6750), None if it has none."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def headers_of(scope_headers: object) -> Mapping[str, str]:
    """Return the headers of an ASGI request by their names in lower case; of several of a name the last."""
    assert isinstance(scope_headers, list | tuple)
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope_headers}
