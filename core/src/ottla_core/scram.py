"""The keys of SCRAM: what a server keeps of a password (RFC 5802, section 3; RFC 7677). Pure.

A client that sets a password sends the salted password (KIP-554), from which a login can be made. The broker that
takes it makes a `ScramCredential` of it at once, from which none can be made; only that is passed on and kept.

Like Kafka's ScramFormatter, names and passwords are taken as UTF-8 without a normalization by SASLprep.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import Final

from ottla_core.cluster.state.security import ScramCredential, ScramMechanism
from ottla_core.errors import ConfigurationError

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
"""Kafka's bounds, of which the upper one protects clients from a long login (KIP-554)."""
ITERATIONS_DEFAULT: Final = 8192
BOOTSTRAP_USERS_MAX: Final = 50
"""They are written in one transaction of etcd, which has a limit."""
SALT_BYTES: Final = 24
"""Of the salts that are drawn here."""

NOBODY: Final = ""
"""The user under whose name a random credential stands: no client can be called so, and unknown users are shown a
salt that follows from it, so that no broker tells a user who is unknown from one who is not."""

_HASHES: Final = {ScramMechanism.SHA_256: "sha256", ScramMechanism.SHA_512: "sha512"}
_MECHANISMS: Final = {each.sasl_name: each for each in ScramMechanism}


def hash_name(mechanism: ScramMechanism) -> str:
    """Return the name of a mechanism's hash, as hashlib has it."""
    return _HASHES[mechanism]


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted password; takes milliseconds of CPU, without the interpreter's lock."""
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return what a server keeps, made of a salted password."""
    name = _HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", name)
    return ScramCredential(
        salt=salt,
        stored_key=hashlib.new(name, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", name),
        iterations=iterations,
    )


_BOOTSTRAP_ITEM: Final = re.compile(r"\s*(SCRAM-SHA-(?:256|512))=\[(.*?)\]\s*", re.DOTALL)
_BOOTSTRAP_FIELDS: Final = frozenset({"name", "password", "iterations"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapUser:
    """A user who is created in a cluster that has none."""

    mechanism: ScramMechanism
    name: str
    password: str = field(repr=False)
    iterations: int

    def __str__(self) -> str:
        """Return what may be shown of it."""
        return f"{self.mechanism.sasl_name}=[name={self.name}]"


def parse_bootstrap_users(text: str) -> tuple[BootstrapUser, ...]:
    """Return the users in a setting.

    The form is that of Kafka's ``kafka-storage format --add-scram``, with semicolons between several:
    ``SCRAM-SHA-512=[name=admin,password=...]``. The password is the last field, as it may contain commas.

    Raises:
        ConfigurationError: the text is something else; the message has no part of it.
    """
    found = []
    for number, item in enumerate((each for each in _split_items(text) if each.strip()), start=1):
        matched = _BOOTSTRAP_ITEM.fullmatch(item)
        if matched is None:
            raise ConfigurationError(f"user {number} is not written as SCRAM-SHA-512=[name=NAME,password=PASSWORD]")
        before, separator, password = matched[2].partition("password=")
        fields = dict(part.split("=", 1) for part in before.split(",") if "=" in part)
        fields = {name.strip(): value.strip() for name, value in fields.items()}
        if not separator or not password or not fields.get("name") or set(fields) - _BOOTSTRAP_FIELDS:
            raise ConfigurationError(f"user {number} needs a name, then perhaps iterations, and a password at last")
        iterations = fields.get("iterations", str(ITERATIONS_DEFAULT))
        if not iterations.isdecimal() or not ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:
            raise ConfigurationError(f"user {number}: iterations are {ITERATIONS_MIN} to {ITERATIONS_MAX}")
        mechanism = _MECHANISMS[matched[1]]
        if number > BOOTSTRAP_USERS_MAX:
            raise ConfigurationError(f"there may be {BOOTSTRAP_USERS_MAX} users; create others with `ottla user`")
        found.append(
            BootstrapUser(mechanism=mechanism, name=fields["name"], password=password, iterations=int(iterations))
        )
    return tuple(found)


def _split_items(text: str) -> list[str]:
    """Split at the semicolons that follow a closing bracket; a password may contain others."""
    return re.split(r"(?<=\])\s*;", text)
