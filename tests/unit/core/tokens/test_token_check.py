"""Signatures of bearer tokens: those of known keys count, and nothing that only looks like one."""

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode

import pytest

from ottla_core.tokens.token_check import BadKeySetError, BadTokenError, read_key_set, verified_claims
from tests.support.servers.issuer import Issuer

ISSUER = Issuer()
KEYS = read_key_set(ISSUER.key_set())


def part(content: object) -> str:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256", "ES256", "EdDSA"])
def test_a_token_of_a_known_key_has_its_claims(algorithm: str) -> None:
    issuer = Issuer(algorithm=algorithm)
    keys = read_key_set(issuer.key_set(ISSUER))
    assert verified_claims(issuer.token("žofie"), keys)["sub"] == "žofie"


def test_a_token_that_names_no_key_is_tried_with_all() -> None:
    other = Issuer("other")
    assert verified_claims(other.token(key_id=""), read_key_set(ISSUER.key_set(other)))["sub"] == "ann"


def test_a_foreign_key_of_the_same_name_is_refused() -> None:
    with pytest.raises(BadTokenError, match="no key"):
        verified_claims(Issuer().token(), KEYS)


def test_a_token_by_an_unknown_key_is_refused() -> None:
    with pytest.raises(BadTokenError, match="no key"):
        verified_claims(ISSUER.token(key_id="other"), KEYS)


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "HS256", "HS512", "RSA-OAEP", "", None, 7, "x" * 100])
def test_other_algorithms_are_refused_whatever_the_signature(algorithm: object) -> None:
    unsigned = f"{part({'alg': algorithm, 'kid': 'first'})}.{part({'sub': 'ann', 'exp': 2**40, 'iat': 1})}"
    for key in (b"", ISSUER.key_set()):
        signature = hmac.digest(key, unsigned.encode(), hashlib.sha256)
        for end in ("", part(signature)):
            with pytest.raises(BadTokenError, match="algorithm"):
                verified_claims(f"{unsigned}.{end}", KEYS)


def test_changed_claims_are_refused() -> None:
    header, _, signature = ISSUER.token().split(".")
    with pytest.raises(BadTokenError):
        verified_claims(f"{header}.{part({'sub': 'root', 'exp': 2**40, 'iat': 1})}.{signature}", KEYS)


@pytest.mark.parametrize(
    "token",
    ["", ".", "..", "...", "a.b.c", f"{part([])}.{part({})}.", f"{part(b'[' * 5000)}..", "é.é.é", "a.b.c.d.e"],
)
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(BadTokenError):
        verified_claims(token, KEYS)


def test_an_algorithm_of_another_kind_than_the_key_is_refused() -> None:
    forged = Issuer(algorithm="ES256")
    with pytest.raises(BadTokenError):
        verified_claims(forged.token(), KEYS)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": 7}',
        b'{"keys": []}',
        b'{"keys": [7, {"kty": "oct", "k": "c2VjcmV0", "kid": "first"}]}',
        b'{"keys": [{"kty": "RSA", "n": "x"}]}',
        b"[" * 100_000,
    ],
)
def test_a_set_without_a_public_key_is_refused(content: bytes) -> None:
    with pytest.raises(BadKeySetError):
        read_key_set(content)


def test_a_secret_key_in_the_set_signs_nothing() -> None:
    listed = json.loads(ISSUER.key_set())["keys"]
    keys = read_key_set(json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "first"}, *listed]}).encode())
    unsigned = f"{part({'alg': 'HS256', 'kid': 'first'})}.{part({'sub': 'ann', 'exp': 2**40, 'iat': 1})}"
    with pytest.raises(BadTokenError):
        verified_claims(f"{unsigned}.{part(hmac.digest(b'secret', unsigned.encode(), hashlib.sha256))}", keys)
