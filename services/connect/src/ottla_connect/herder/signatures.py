"""Signatures of what workers ask of each other on their own account (KIP-507). Pure.

The key is in the configuration topic, so whoever can sign may also write there. Kafka signs the request's body alone;
here the method and the path are signed as well, so that what was meant for one connector cannot be sent to another.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Collection
from urllib.parse import unquote

from ottla_connect.config import SIGNATURE_HASHES
from ottla_core.rest.errors import BadRequest, RequestError

SIGNATURE_HEADER = "X-Connect-Authorization"
ALGORITHM_HEADER = "X-Connect-Request-Signature-Algorithm"


class InvalidSignature(RequestError):
    """A request between workers was signed with another key, or was changed on its way."""

    status = 403


class KeyNotRead(RequestError):
    """The key of signatures is not known yet."""

    status = 503


def sign(key: bytes, algorithm: str, method: str, path: str, body: bytes) -> dict[str, str]:
    """Return the headers that sign a request.

    Args:
        key: the cluster's session key.
        algorithm: a key of `SIGNATURE_HASHES`, such as ``HmacSHA256``.
        method: such as ``POST``.
        path: the path of the URL, without its query.
        body: the body.
    """
    signature = _digest(key, algorithm, method, path, body)
    return {SIGNATURE_HEADER: base64.b64encode(signature).decode(), ALGORITHM_HEADER: algorithm}


def verify(
    key: bytes, permitted: Collection[str], *, method: str, path: str, body: bytes, signature: str, algorithm: str
) -> None:
    """Check a request's signature.

    Args:
        key: the cluster's session key.
        permitted: the algorithms that this worker accepts.
        method: the request's method.
        path: the path of its URL, without its query.
        body: its body.
        signature: its `SIGNATURE_HEADER`.
        algorithm: its `ALGORITHM_HEADER`.

    Raises:
        BadRequest: the algorithm is not accepted, or the signature is no base64.
        InvalidSignature: it is another request's, or another key's.
    """
    if algorithm not in SIGNATURE_HASHES or algorithm not in permitted:
        raise BadRequest(
            f"This worker does not accept requests signed with '{algorithm}', only with "
            f"{', '.join(sorted(permitted))}; give all workers the same inter.worker.verification.algorithms"
        )
    try:
        given = base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest(f"The header {SIGNATURE_HEADER} is not base64") from None
    if not hmac.compare_digest(given, _digest(key, algorithm, method, path, body)):
        raise InvalidSignature("Internal request contained invalid signature.")


def _digest(key: bytes, algorithm: str, method: str, path: str, body: bytes) -> bytes:
    # The decoded path, as clients differ in what they escape.
    head = f"{method}\n{unquote(path)}\n".encode()
    return hmac.digest(key, head + body, getattr(hashlib, SIGNATURE_HASHES[algorithm]))
