"""Users of SCRAM as a page lists them, and the forms about their passwords. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla_core.cluster.state.security import ScramMechanism
from ottla_operations.errors import OperationError
from ottla_operations.users.passwords import checked_password

NAME_CHARACTERS_MAX: Final = 200
MECHANISMS: Final = {"sha512": ScramMechanism.SHA_512, "sha256": ScramMechanism.SHA_256}
"""Boxes of the form."""


class BadUser(ValueError):
    """A field cannot be used; the message says what to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRow:
    """A user, with each mechanism's name and how often the password is hashed for it."""

    name: str
    mechanisms: Sequence[tuple[str, int]]


def user_rows(users: Mapping[str, Mapping[ScramMechanism, int]], words: str) -> list[UserRow]:
    """Return the users whose names have all of some words."""
    wanted = words.lower().split()
    return [
        UserRow(name=name, mechanisms=[(each.sasl_name, count) for each, count in sorted(iterations.items())])
        for name, iterations in sorted(users.items())
        if all(word in name.lower() for word in wanted)
    ]


def typed_name(form: Mapping[str, str]) -> str:
    """Return a new user's name.

    Raises:
        BadUser: it cannot be one.
    """
    name = form.get("name", "").strip()
    if not name or len(name) > NAME_CHARACTERS_MAX or not name.isprintable():
        raise BadUser(f"Name: from 1 to {NAME_CHARACTERS_MAX} characters that can be printed")
    return name


def typed_password(form: Mapping[str, str]) -> str:
    """Return a new password, which is typed twice.

    Raises:
        BadUser: it is empty, too long, or not the same twice.
    """
    password = form.get("password", "")
    if password != form.get("again", ""):
        raise BadUser("the passwords are not the same; nothing was changed")
    try:
        return checked_password(password)
    except OperationError as error:
        raise BadUser(str(error)) from None


def typed_mechanisms(form: Mapping[str, str]) -> list[ScramMechanism]:
    """Return the mechanisms that are chosen.

    Raises:
        BadUser: there is none.
    """
    found = [mechanism for box, mechanism in MECHANISMS.items() if form.get(box)]
    if not found:
        raise BadUser("choose SCRAM-SHA-512, SCRAM-SHA-256 or both")
    return found
