"""PLAIN (RFC 4616): the client tells name and password. Pure.

The users stand in the broker's settings, as in Kafka's PlainLoginModule.
"""

import hashlib
import hmac
from collections.abc import Mapping

from ottla_broker.sasl.exchange import MESSAGE_BYTES_MAX, Accepted, Refused
from ottla_core.principal import USER, Principal

_FIELDS = 3


class Plain:
    """One authentication.

    Args:
        passwords: by user; several mappings, of which an earlier one comes first.
    """

    def __init__(self, *passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self._is_over = False

    def respond(self, message: bytes) -> Accepted | Refused:
        """Take the only message: authorization id, name and password, with zero bytes between."""
        if self._is_over:
            return Refused("a message after the end of the exchange")
        self._is_over = True
        if len(message) > MESSAGE_BYTES_MAX:
            return Refused(f"a message of {len(message)} bytes")
        fields = message.split(b"\0")
        if len(fields) != _FIELDS:
            return Refused(f"the message has {len(fields)} fields, where authorization id, name and password belong")
        try:
            authorization_id, name, password = (each.decode() for each in fields)
        except UnicodeDecodeError:
            return Refused("the message is not UTF-8")
        if not name or not password:
            return Refused("name or password is empty")
        known = next((each[name] for each in self._passwords if name in each), None)
        # An unknown user's password is compared as well, and of all the hashes, so that the time tells nothing.
        is_right = hmac.compare_digest(_hashed(known or ""), _hashed(password))
        if known is None or not is_right:
            return Refused(f"user {name!r} is unknown" if known is None else f"wrong password of user {name!r}")
        if authorization_id and authorization_id != name:
            return Refused(f"user {name!r} asks to be authorized as {authorization_id!r}")
        return Accepted(principal=Principal(USER, name))


def _hashed(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()
