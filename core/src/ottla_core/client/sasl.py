"""The client's side of SASL, as Kafka's brokers speak it. Pure.

PLAIN (RFC 4616), SCRAM (RFC 5802, RFC 7677) and OAUTHBEARER (RFC 7628).

A mechanism makes a conversation, which turns each challenge into a response until it is done; it does no I/O.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from ottla_core.client.errors import AuthenticationFailed

ITERATIONS_MIN = 4096
ITERATIONS_MAX = 1_000_000
"""More than this would keep a worker busy for a second: no broker asks for it, an impostor might."""

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_NO_CHANNEL_BINDING = "n,,"
_BETWEEN = "\x01"


class Conversation(Protocol):
    """One authentication."""

    def first(self) -> bytes:
        """Return the first message to the broker."""

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the response to a challenge, or None if the broker's part is done and right.

        Raises:
            AuthenticationFailed: the challenge is wrong.
        """


def begin(
    mechanism: str,
    username: str,
    password: str,
    extensions: Mapping[str, str] = MappingProxyType({}),
    *,
    nonce: str,
) -> Conversation:
    """Return a new conversation of a mechanism that is in `security.MECHANISMS`.

    Args:
        mechanism: its name.
        username: who logs in.
        password: proves it; of OAUTHBEARER the token.
        extensions: of the token.
        nonce: drawn for this conversation alone.
    """
    if mechanism == "OAUTHBEARER":
        return Bearer(password, extensions)
    if mechanism == "PLAIN":
        return Plain(username, password)
    return Scram(_HASHES[mechanism], username, password, nonce)


class Plain:
    """Tells name and password; safe on an encrypted connection only."""

    def __init__(self, username: str, password: str) -> None:
        self._message = b"\0" + username.encode() + b"\0" + password.encode()

    def first(self) -> bytes:
        """Return name and password."""
        return self._message

    def respond(self, challenge: bytes) -> None:
        """Return None: the broker says nothing else."""


class Bearer:
    """Shows a token (RFC 7628); safe on an encrypted connection only."""

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        parts = {"auth": f"Bearer {token}", **extensions}
        told = "".join(f"{name}={value}{_BETWEEN}" for name, value in parts.items())
        self._message = f"{_NO_CHANNEL_BINDING}{_BETWEEN}{told}{_BETWEEN}".encode()
        self._is_refused = False

    def first(self) -> bytes:
        """Return the token."""
        return self._message

    def respond(self, challenge: bytes) -> bytes | None:
        """Return None if the broker is content; a challenge says why not, and its error follows what we return."""
        if not challenge:
            return None
        if self._is_refused:
            raise AuthenticationFailed("OAUTHBEARER: the broker does not end what it has refused")
        self._is_refused = True
        return _BETWEEN.encode()


class Scram:
    """Proves that it knows the password, and has the broker prove that it knows it too."""

    def __init__(self, hash_name: str, username: str, password: str, nonce: str) -> None:
        """Begin.

        Args:
            hash_name: sha256 or sha512.
            username: the user's name.
            password: the password.
            nonce: a word that was never used before.
        """
        self._hash = hash_name
        self._password = password
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first = f"n={name},r={nonce}"
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        """Return the client's first message: name and nonce."""
        return (_NO_CHANNEL_BINDING + self._first).encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the proof for the server's first message, and None for its final one."""
        if self._server_signature is None:
            return self._prove(challenge)
        attributes = _attributes(challenge)
        if "e" in attributes:
            raise AuthenticationFailed(f"SCRAM: the broker says {attributes['e']}")
        if not hmac.compare_digest(_decoded(attributes, "v"), self._server_signature):
            raise AuthenticationFailed("SCRAM: the broker does not know the password, it may be an impostor")
        return None

    def _prove(self, challenge: bytes) -> bytes:
        attributes = _attributes(challenge)
        nonce = attributes.get("r", "")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationFailed("SCRAM: the broker's nonce does not go on from ours")
        count = attributes.get("i", "")
        if not (count.isdecimal() and ITERATIONS_MIN <= int(count) <= ITERATIONS_MAX):
            raise AuthenticationFailed(f"SCRAM: the broker asks for {count[:20]!r} iterations")
        salt = _decoded(attributes, "s")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password.encode(), salt, int(count))
        client_key = self._mac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash, client_key).digest()
        binding = base64.b64encode(_NO_CHANNEL_BINDING.encode()).decode()
        final = f"c={binding},r={nonce}"
        transcript = b",".join((self._first.encode(), challenge, final.encode()))
        signature = self._mac(stored_key, transcript)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = self._mac(self._mac(salted, b"Server Key"), transcript)
        return f"{final},p={base64.b64encode(proof).decode()}".encode()

    def _mac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _attributes(message: bytes) -> dict[str, str]:
    try:
        parts = message.decode().split(",")
    except UnicodeDecodeError:
        raise AuthenticationFailed("SCRAM: the broker's message is no UTF-8") from None
    return {part[:1]: part[2:] for part in parts if part[1:2] == "="}


def _decoded(attributes: dict[str, str], name: str) -> bytes:
    try:
        return base64.b64decode(attributes[name], validate=True)
    except (KeyError, binascii.Error, ValueError):
        raise AuthenticationFailed(f"SCRAM: the broker's message has no valid {name}=") from None
