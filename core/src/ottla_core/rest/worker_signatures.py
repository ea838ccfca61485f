"""Requests that a worker sends to another one, signed: for whom, by what workers know each other by. Pure.

The worker that is asked first finds out who asks, and says so to the worker that has to answer. What it says counts
only with a signature over who is asked, method, path and query, body, user, time and a nonce, and counts once
(compare KIP-507, which signs bodies). What a worker asks on its own account is signed for nobody: `OWN_ACCOUNT`.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

CALLER_HEADER: Final = "x-ottla-caller"
TIME_HEADER: Final = "x-ottla-signed-ms"
NONCE_HEADER: Final = "x-ottla-nonce"
DIGEST_HEADER: Final = "x-ottla-body-digest"
SAID: Final = (CALLER_HEADER, TIME_HEADER, NONCE_HEADER, DIGEST_HEADER)
"""The headers that are signed."""
SIGNATURE_HEADER: Final = "x-ottla-caller-signature"
AGE_MS_MAX: Final = 300_000
"""A request that was recorded cannot be sent again later than this; the workers' clocks may differ by as much."""
NONCES_MAX: Final = 20_000
"""So many nonces are remembered, which takes some megabytes."""
FORMER_KEY_MS: Final = 60_000
"""So long after a shared key was replaced the former one counts: workers read of the new one one after the other."""
OWN_ACCOUNT: Final = ""
"""For whom a worker asks on its own account; no user has an empty name."""


class RequestSigner(Protocol):
    """How workers know what other workers have signed."""

    def sign(self, content: bytes) -> str | None:
        """Return this worker's signature, None while it has no key; ASCII."""

    def verify(self, content: bytes, signature: str, now_ms: int) -> bool:
        """Return whether a worker has signed this."""


class SharedKey:
    """Signs by a key that all workers share (HMAC-SHA256).

    Args:
        key: returns it, None before there is one.
    """

    def __init__(self, key: Callable[[], bytes | None]) -> None:
        self._key = key
        self._known: bytes | None = None
        self._former: bytes | None = None
        self._former_until_ms = 0

    def sign(self, content: bytes) -> str | None:
        """Return the signature."""
        key = self._key()
        return None if key is None else _keyed_digest(key, content)

    def verify(self, content: bytes, signature: str, now_ms: int) -> bool:
        """Return whether a worker has signed this."""
        key = self._key()
        if key != self._known:
            self._former, self._former_until_ms = self._known, now_ms + FORMER_KEY_MS
            self._known = key
        keys = [key, self._former if now_ms < self._former_until_ms else None]
        given = signature.encode()
        return any(hmac.compare_digest(_keyed_digest(each, content).encode(), given) for each in keys if each)


class SeenNonces:
    """The nonces of requests that were believed, so that none is believed twice.

    When there is no more room, the oldest one is forgotten, and with it every request that was signed no later. So is
    what was signed before this worker's start, which may have been believed then.

    Args:
        count_max: how many are remembered.
        since_ms: when this worker started.
    """

    def __init__(self, count_max: int = NONCES_MAX, *, since_ms: int = 0) -> None:
        self._count_max = count_max
        self._signed_ms: dict[str, int] = {}
        self._forgotten_ms = since_ms

    def take(self, nonce: str, signed_ms: int, now_ms: int) -> bool:
        """Return whether a nonce comes for the first time, and remember it."""
        if signed_ms <= self._forgotten_ms or nonce in self._signed_ms:
            return False
        while self._signed_ms:
            oldest = next(iter(self._signed_ms))
            is_over = now_ms - self._signed_ms[oldest] > AGE_MS_MAX
            if not is_over and len(self._signed_ms) < self._count_max:
                break
            forgotten_ms = self._signed_ms.pop(oldest)
            self._forgotten_ms = max(self._forgotten_ms, 0 if is_over else forgotten_ms)
        self._signed_ms[nonce] = signed_ms
        return True


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A request whose signature is right, provided that its body is the one that was signed.

    Attributes:
        caller: the user for whom it was sent on; `OWN_ACCOUNT` for the worker itself.
        body_digest: SHA-256 of its body, in hexadecimal digits.
    """

    caller: str
    body_digest: str


def sign_caller(
    signer: RequestSigner,
    caller: str,
    *,
    audience: str,
    method: str,
    target: bytes,
    body: bytes,
    nonce: str,
    now_ms: int,
) -> Mapping[str, str]:
    """Return the headers that say for whom a request is sent on; none while there is no key.

    Args:
        signer: of this worker.
        caller: the user's name, or `OWN_ACCOUNT`.
        audience: the URL by which other workers know the one that is asked.
        method: of the request.
        target: path and query, as they are sent.
        body: of the request.
        nonce: drawn by chance for this request.
        now_ms: the time.
    """
    said = {
        CALLER_HEADER: caller.encode().hex(),
        TIME_HEADER: str(now_ms),
        NONCE_HEADER: nonce,
        DIGEST_HEADER: hashlib.sha256(body).hexdigest(),
    }
    signature = signer.sign(_content(said, audience=audience, method=method, target=target))
    return {} if signature is None else {**said, SIGNATURE_HEADER: signature}


def signed_request(
    signer: RequestSigner,
    seen: SeenNonces,
    headers: Mapping[str, str],
    *,
    audience: str,
    method: str,
    target: bytes,
    now_ms: int,
) -> SignedRequest | None:
    """Return for whom a request was sent on, None if no worker has signed it, too long ago, or it came before.

    Args:
        signer: knows the signatures of workers.
        seen: the nonces of earlier requests, to which this one's is added.
        headers: of the request, by names in lower case.
        audience: the URL by which other workers know this one.
        method: of the request.
        target: as with `sign_caller`.
        now_ms: the time.
    """
    said = {name: headers.get(name, "") for name in SAID}
    content = _content(said, audience=audience, method=method, target=target)
    if not signer.verify(content, headers.get(SIGNATURE_HEADER, ""), now_ms):
        return None
    signed_ms = int(said[TIME_HEADER])
    if abs(now_ms - signed_ms) > AGE_MS_MAX or not seen.take(said[NONCE_HEADER], signed_ms, now_ms):
        return None
    return SignedRequest(bytes.fromhex(said[CALLER_HEADER]).decode(), said[DIGEST_HEADER])


def _content(said: Mapping[str, str], *, audience: str, method: str, target: bytes) -> bytes:
    # The purpose is signed as well, so that no signature of another kind of request by the same key passes for this.
    parts = ("ottla-caller", *(said[name] for name in SAID), audience.rstrip("/"), method, "")
    return "\n".join(parts).encode() + (target if b"?" in target else target + b"?")


def _keyed_digest(key: bytes, content: bytes) -> str:
    return hmac.new(key, content, hashlib.sha256).hexdigest()
