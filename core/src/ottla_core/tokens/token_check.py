"""Whether a bearer token is signed by one of the keys of a JSON Web Key Set (RFC 7515, RFC 7517). Pure.

Only signatures by a private key count: a token without one, or with one by a shared secret, is refused whatever the
set contains, as anybody could make it.
"""

import json
from base64 import urlsafe_b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joserfc import jwk, jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

ALGORITHMS: Final = frozenset(
    ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
)
KEYS_MAX: Final = 100
RSA_BITS_MAX: Final = 8192
"""Signatures by longer keys take too long to check."""

PublicKey = RSAKey | ECKey | OKPKey
_REGISTRY: Final = jws.JWSRegistry(algorithms=[*ALGORITHMS])


class BadTokenError(Exception):
    """A token is not signed by a known key; the message has nothing of it."""


class BadKeySetError(Exception):
    """A key set cannot be used."""


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """The keys of a set that sign tokens, with their ids; a key need not have one."""

    keys: Sequence[tuple[str | None, PublicKey]]

    def has(self, key_id: str | None) -> bool:
        """Return whether there is a key that a token may mean, which names its key or none."""
        return any(key_id is None or known == key_id for known, _ in self.keys)


def read_key_set(content: bytes) -> SigningKeys:
    """Return the public keys of a set; those of other kinds, or for encryption, are passed over.

    Raises:
        BadKeySetError: the content is no set, or has no such key.
    """
    try:
        listed = json.loads(content)["keys"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise BadKeySetError("it is no JSON Web Key Set") from None
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise BadKeySetError(f"it is no list of up to {KEYS_MAX} keys")
    keys = [(_text(each.get("kid")), key) for each in listed if isinstance(each, dict) and (key := _key(each))]
    if not keys:
        raise BadKeySetError("it has no public key for signatures (RSA, EC or OKP)")
    return SigningKeys(keys)


def key_id_of(token: str) -> str | None:
    """Return which key a token says that it is signed by, None if it does not say.

    Raises:
        BadTokenError: it is no token, or signed in a way that is not accepted.
    """
    header = _header(token)
    algorithm = header.get("alg")
    if algorithm not in ALGORITHMS:
        named = algorithm if isinstance(algorithm, str) and algorithm.isalnum() and len(algorithm) < 10 else "another"
        raise BadTokenError(f"the token is signed by the algorithm {named}, which is not accepted")
    return _text(header.get("kid"))


def verified_claims(token: str, keys: SigningKeys) -> Mapping[str, Any]:
    """Return the claims of a token that one of the keys has signed.

    Raises:
        BadTokenError: none of them has, or it is no token with claims.
    """
    key_id, algorithm = key_id_of(token), _header(token)["alg"]
    for known, key in keys.keys:
        if (key_id is None or known == key_id) and _may_sign(key, algorithm):
            try:
                content = jws.deserialize_compact(token, key, registry=_REGISTRY).payload
            except (JoseError, ValueError, TypeError):
                continue
            return _claims(content)
    raise BadTokenError("no key of the JSON Web Key Set has signed the token")


def _claims(content: bytes) -> Mapping[str, Any]:
    try:
        claims = json.loads(content)
    except (ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise BadTokenError("the token has no claims")
    return claims


def _header(token: str) -> dict[str, Any]:
    encoded, dot, _ = token.partition(".")
    if token.count(".") != 2 or not dot:
        raise BadTokenError("the token is no signed JSON Web Token")
    try:
        header = json.loads(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (NotBase64, ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise BadTokenError("the token's header is no JSON object")
    return header


def _may_sign(key: PublicKey, algorithm: str) -> bool:
    """Return whether a key is of the kind that an algorithm takes, and for it if it says for which."""
    if key.get("alg", algorithm) != algorithm:
        return False
    kind = {"R": "RSA", "P": "RSA"}.get(algorithm[0], "EC" if algorithm.startswith("ES") else "OKP")
    return bool(key.key_type == kind)


def _key(described: Mapping[str, Any]) -> PublicKey | None:
    if described.get("use", "sig") != "sig":
        return None
    try:
        key = jwk.import_key(dict(described))
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    if isinstance(key, RSAKey) and key.raw_value.key_size > RSA_BITS_MAX:
        return None
    return key if isinstance(key, (RSAKey, ECKey, OKPKey)) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
