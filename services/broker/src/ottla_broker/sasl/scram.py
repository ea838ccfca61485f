"""SCRAM (RFC 5802, RFC 7677) on the server's side: the client proves that it knows the password, and so do we. Pure.

The steps: the client names itself and brings a nonce; we go on from its nonce with our own and tell salt and
iterations of its password; it proves that it knows the keys that follow from these, for just this exchange; we prove
that we know them too. As our nonce is new each time, a message of another exchange fails.

An unknown user goes through the whole exchange with a credential that fits no password. As in Kafka, the extension
``tokenauth=true`` says that the name is the id of a delegation token, and there is no channel binding.
"""

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ottla_broker.sasl.exchange import (
    MESSAGE_BYTES_MAX,
    Accepted,
    Challenge,
    CredentialWanted,
    FoundCredential,
    Refused,
)
from ottla_core.cluster.state.security import ScramCredential, ScramMechanism
from ottla_core.scram import hash_name

TOKEN_EXTENSION: Final = "tokenauth"  # noqa: S105 - no password

_NAME: Final = "(?:[^=,\0]|=2C|=3D)+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_FIRST: Final = re.compile(
    f"(?P<header>(?P<binding>[ny]),(?:a=(?P<authorization>{_NAME}))?,)"
    f"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>(?:,[A-Za-z]+=[^,\0]+)*))"
)
_FINAL: Final = re.compile(
    f"(?P<unproved>c=(?P<binding>[A-Za-z0-9/+=]*),r=(?P<nonce>{_PRINTABLE})(?:,[A-Za-z]+=[^,\0]+)*)"
    ",p=(?P<proof>[A-Za-z0-9/+=]+)"
)
_MANDATORY: Final = "m"


class _State(Enum):
    """Where an exchange is."""

    EXPECTS_FIRST = auto()
    """Nothing was said; left by the client's first message."""
    LOOKS_UP = auto()
    """The credential is being looked for; left by `go_on`."""
    EXPECTS_FINAL = auto()
    """Salt and nonce are told; left by the client's proof."""
    OVER = auto()
    """Accepted or refused."""


@dataclass(frozen=True, slots=True)
class _First:
    """The client's first message."""

    header: str
    bare: str
    name: str
    authorization: str
    nonce: str
    by_token: bool


class Scram:
    """One authentication.

    Args:
        mechanism: which variant.
        nonce: drawn for this exchange alone; printable, without commas.
    """

    def __init__(self, mechanism: ScramMechanism, nonce: str) -> None:
        self._hash = hash_name(mechanism)
        self._own_nonce = nonce
        self._state = _State.EXPECTS_FIRST
        self._first: _First | None = None
        self._told = ""
        self._found: FoundCredential | None = None

    def respond(self, message: bytes) -> CredentialWanted | Accepted | Refused:
        """Take a message of the client."""
        state, self._state = self._state, _State.OVER
        try:
            if len(message) > MESSAGE_BYTES_MAX:
                return Refused(f"a message of {len(message)} bytes")
            if state is _State.EXPECTS_FIRST:
                return self._take_first(message.decode())
            if state is _State.EXPECTS_FINAL:
                return self._take_final(message.decode())
        except UnicodeDecodeError:
            return Refused("the message is not UTF-8")
        return Refused("a message out of turn")

    def go_on(self, found: FoundCredential) -> Challenge:
        """Take the credential that was wanted, and return the server's first message."""
        assert self._state is _State.LOOKS_UP
        assert self._first is not None
        self._state = _State.EXPECTS_FINAL
        self._found = found
        salt = base64.b64encode(found.credential.salt).decode()
        self._told = f"r={self._first.nonce}{self._own_nonce},s={salt},i={found.credential.iterations}"
        return Challenge(self._told.encode())

    def _take_first(self, message: str) -> CredentialWanted | Refused:
        matched = _FIRST.fullmatch(message)
        if matched is None:
            return Refused("the first message is none of SCRAM without channel binding")
        extensions = dict(each.split("=", 1) for each in matched["extensions"].split(",") if each)
        if _MANDATORY in extensions:
            return Refused("the client asks for an extension that is unknown")
        first = _First(
            header=matched["header"],
            bare=matched["bare"],
            name=_unescaped(matched["name"]),
            authorization=_unescaped(matched["authorization"] or ""),
            nonce=matched["nonce"],
            by_token=extensions.get(TOKEN_EXTENSION, "").lower() == "true",
        )
        if first.authorization and first.authorization != first.name:
            return Refused(f"user {first.name!r} asks to be authorized as {first.authorization!r}")
        self._first, self._state = first, _State.LOOKS_UP
        return CredentialWanted(first.name, of_token=first.by_token)

    def _take_final(self, message: str) -> Accepted | Refused:
        first, found = self._first, self._found
        assert first is not None
        assert found is not None
        matched = _FINAL.fullmatch(message)
        if matched is None:
            return Refused(f"the final message of {first.name!r} is none of SCRAM")
        try:
            binding = base64.b64decode(matched["binding"], validate=True)
            proof = base64.b64decode(matched["proof"], validate=True)
        except binascii.Error:
            return Refused(f"the final message of {first.name!r} is not base64")
        if not hmac.compare_digest(matched["nonce"].encode(), (first.nonce + self._own_nonce).encode()):
            return Refused(f"{first.name!r} answers with the nonce of another exchange")
        if binding != first.header.encode():
            return Refused(f"{first.name!r} repeats another beginning than that of its first message")
        transcript = f"{first.bare},{self._told},{matched['unproved']}".encode()
        is_right = self._is_proved(found.credential, transcript, proof)
        if not found.is_known:
            return Refused(f"{'token' if first.by_token else 'user'} {first.name!r} is unknown")
        if not is_right:
            return Refused(f"wrong password of {'token' if first.by_token else 'user'} {first.name!r}")
        signature = hmac.digest(found.credential.server_key, transcript, self._hash)
        return Accepted(
            principal=found.principal,
            message=b"v=" + base64.b64encode(signature),
            expires_ms=found.expires_ms,
            by_token=first.by_token,
        )

    def _is_proved(self, credential: ScramCredential, transcript: bytes, proof: bytes) -> bool:
        signature = hmac.digest(credential.stored_key, transcript, self._hash)
        if len(proof) != len(signature):
            return False
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        return hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), credential.stored_key)


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
