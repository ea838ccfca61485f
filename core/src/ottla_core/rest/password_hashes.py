"""Users of REST APIs with their passwords salted and hashed by scrypt (RFC 7914), as lines ``NAME:HASH``. Pure.

A hash is ``scrypt$COST$SALT$KEY`` with salt and key in base64; the cost is scrypt's N, with r = 8 and p = 1.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

SCHEME: Final = "scrypt"
COST: Final = 2**14
"""16 MiB and about 50 ms for each attempt."""
COST_MAX: Final = 2**17
BLOCK_SIZE: Final = 8
SALT_BYTES: Final = 16
KEY_BYTES: Final = 32
MEMORY_BYTES_MAX: Final = 256 * COST_MAX * BLOCK_SIZE
USERS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class PasswordHash:
    """What is needed to check a password.

    Attributes:
        cost: scrypt's N.
        salt: drawn by chance.
        key: what scrypt makes of password and salt.
    """

    cost: int
    salt: bytes = field(repr=False)
    key: bytes = field(repr=False)

    def matches(self, password: str) -> bool:
        """Return whether this is the password; takes the time of `COST`."""
        return hmac.compare_digest(_derive(password, self.salt, self.cost), self.key)

    def __str__(self) -> str:
        """Return it as it stands in a file."""
        return "$".join((SCHEME, str(self.cost), b64encode(self.salt).decode(), b64encode(self.key).decode()))


def hash_of(password: str, salt: bytes) -> PasswordHash:
    """Return what checks a password, with a salt of `SALT_BYTES` drawn by chance."""
    return PasswordHash(COST, salt, _derive(password, salt, COST))


def parse_users(text: str) -> Mapping[str, PasswordHash]:
    """Return the users of a file; empty lines and those that begin with # are passed over.

    Raises:
        ValueError: a line is no user, or there are too many; the message has its number and nothing of its text.
    """
    users: dict[str, PasswordHash] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, _, written = line.strip().rpartition(":")
        try:
            users[checked_name(name)] = _parse_hash(written)
        except (ValueError, NotBase64):
            raise ValueError(f"line {number}: no user with a hash, as `ottla secure rest-user` writes them") from None
        if len(users) > USERS_MAX:
            raise ValueError(f"there are more than {USERS_MAX} users")
    return users


def checked_name(name: str) -> str:
    """Return the name of a user.

    Raises:
        ValueError: it is empty, or has a colon or what cannot be printed.
    """
    if not name or name != name.strip() or ":" in name or not name.isprintable() or name.startswith("#"):
        raise ValueError("the name of a user is neither empty nor has it colons, or spaces around it")
    return name


def _parse_hash(written: str) -> PasswordHash:
    scheme, cost, salt, key = written.split("$")
    found = PasswordHash(int(cost), b64decode(salt, validate=True), b64decode(key, validate=True))
    is_power = found.cost > 1 and found.cost & (found.cost - 1) == 0
    if scheme != SCHEME or not is_power or found.cost > COST_MAX or len(found.key) != KEY_BYTES or not found.salt:
        raise ValueError("no hash")
    return found


def _derive(password: str, salt: bytes, cost: int) -> bytes:
    return hashlib.scrypt(
        password.encode(), salt=salt, n=cost, r=BLOCK_SIZE, p=1, maxmem=MEMORY_BYTES_MAX, dklen=KEY_BYTES
    )
