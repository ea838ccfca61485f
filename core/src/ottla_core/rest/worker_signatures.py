"""Requests that a worker sends on for a user, signed: who the user is, by what workers know each other by. Pure.

The worker that is asked first finds out who asks, and says so to the worker that has to answer. What it says counts
only with a signature over the method, path and query, body, user and time (compare KIP-507, which signs bodies).
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

CALLER_HEADER: Final = "x-ottla-caller"
TIME_HEADER: Final = "x-ottla-signed-ms"
DIGEST_HEADER: Final = "x-ottla-body-digest"
SIGNATURE_HEADER: Final = "x-ottla-caller-signature"
AGE_MS_MAX: Final = 300_000
"""A request that was recorded cannot be sent again later than this; the workers' clocks may differ by as much."""


class RequestSigner(Protocol):
    """How workers know what other workers have signed."""

    def sign(self, content: bytes) -> str | None:
        """Return this worker's signature, None while it has no key; ASCII."""

    def verify(self, content: bytes, signature: str) -> bool:
        """Return whether a worker has signed this."""


class SharedKey:
    """Signs by a key that all workers share (HMAC-SHA256).

    Args:
        key: returns it, None before there is one.
    """

    def __init__(self, key: Callable[[], bytes | None]) -> None:
        self._key = key

    def sign(self, content: bytes) -> str | None:
        """Return the signature."""
        key = self._key()
        return None if key is None else hmac.new(key, content, hashlib.sha256).hexdigest()

    def verify(self, content: bytes, signature: str) -> bool:
        """Return whether a worker has signed this."""
        expected = self.sign(content)
        return expected is not None and hmac.compare_digest(expected.encode(), signature.encode())


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A request whose signature is right, provided that its body is the one that was signed.

    Attributes:
        caller: the user for whom it was sent on.
        body_digest: SHA-256 of its body, in hexadecimal digits.
    """

    caller: str
    body_digest: str


def sign_caller(
    signer: RequestSigner, caller: str, *, method: str, target: bytes, body: bytes, now_ms: int
) -> Mapping[str, str]:
    """Return the headers that say for whom a request is sent on; none while there is no key.

    Args:
        signer: of this worker.
        caller: the user's name.
        method: of the request.
        target: path, question mark and query, as they are sent; with the mark even if there is no query.
        body: of the request.
        now_ms: the time.
    """
    name, time, digest = caller.encode().hex(), str(now_ms), hashlib.sha256(body).hexdigest()
    signature = signer.sign(_content(name, time, method, target, digest))
    if signature is None:
        return {}
    return {CALLER_HEADER: name, TIME_HEADER: time, DIGEST_HEADER: digest, SIGNATURE_HEADER: signature}


def signed_request(
    signer: RequestSigner, headers: Mapping[str, str], *, method: str, target: bytes, now_ms: int
) -> SignedRequest | None:
    """Return for whom a request was sent on, None if no worker has signed it, or too long ago.

    Args:
        signer: knows the signatures of workers.
        headers: of the request, by names in lower case.
        method: of the request.
        target: as with `sign_caller`.
        now_ms: the time.
    """
    name, time, digest = (headers.get(each, "") for each in (CALLER_HEADER, TIME_HEADER, DIGEST_HEADER))
    if not signer.verify(_content(name, time, method, target, digest), headers.get(SIGNATURE_HEADER, "")):
        return None
    if abs(now_ms - int(time)) > AGE_MS_MAX:
        return None
    return SignedRequest(bytes.fromhex(name).decode(), digest)


def _content(name: str, time: str, method: str, target: bytes, digest: str) -> bytes:
    # The purpose is signed as well, so that no signature of another kind of request by the same key passes for this.
    return "\n".join(("ottla-caller", name, time, method, digest, "")).encode() + target
