"""SASL conversations: PLAIN, and SCRAM with the examples of its RFCs."""

import base64
import hashlib
import hmac

import pytest

from ottla_core.client.errors import AuthenticationFailed
from ottla_core.client.sasl import Plain, Scram, begin


def test_plain_tells_name_and_password():
    conversation = Plain("user", "pencil")
    assert conversation.first() == b"\0user\0pencil"
    assert conversation.respond(b"") is None


def test_a_token_is_shown_with_extensions():
    conversation = begin("OAUTHBEARER", "me", "abc.def", {"pool": "p"}, nonce="")
    assert conversation.first() == b"n,,\x01auth=Bearer abc.def\x01pool=p\x01\x01"
    assert conversation.respond(b"") is None


def test_a_broker_that_says_what_is_wrong_with_a_token_has_to_refuse_it():
    conversation = begin("OAUTHBEARER", "me", "abc", nonce="")
    assert conversation.respond(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(AuthenticationFailed, match="does not end"):
        conversation.respond(b'{"status":"invalid_token"}')


# The example of RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_scram_sha_256_speaks_as_in_the_rfc():
    conversation = Scram("sha256", "user", "pencil", NONCE)
    assert conversation.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert conversation.respond(SERVER_FIRST) == CLIENT_FINAL
    assert conversation.respond(SERVER_FINAL) is None


def test_scram_sha_512_proves_the_password_to_a_server_that_has_its_keys():
    conversation = begin("SCRAM-SHA-512", "a,b=c", "pässword", nonce=NONCE)
    first_bare = conversation.first().decode().removeprefix("n,,")
    assert first_bare.startswith("n=a=2Cb=3Dc,r=")
    nonce = first_bare.partition(",r=")[2] + "server"
    challenge = f"r={nonce},s={base64.b64encode(b'salt').decode()},i=8192"
    final = conversation.respond(challenge.encode())
    assert final is not None
    without_proof, _, proof = final.decode().rpartition(",p=")
    salted = hashlib.pbkdf2_hmac("sha512", "pässword".encode(), b"salt", 8192)
    client_key = hmac.digest(salted, b"Client Key", "sha512")
    transcript = f"{first_bare},{challenge},{without_proof}".encode()
    signature = hmac.digest(hashlib.sha512(client_key).digest(), transcript, "sha512")
    assert bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True)) == client_key
    server_signature = hmac.digest(hmac.digest(salted, b"Server Key", "sha512"), transcript, "sha512")
    assert conversation.respond(b"v=" + base64.b64encode(server_signature)) is None


@pytest.mark.parametrize(
    ("challenge", "message"),
    [
        (b"r=another,s=c2FsdA==,i=4096", "nonce does not go on from ours"),
        (b"r=" + NONCE.encode() + b",s=c2FsdA==,i=4096", "nonce does not go on from ours"),
        (b"r=" + NONCE.encode() + b"x,s=c2FsdA==,i=1", "asks for '1' iterations"),
        (b"r=" + NONCE.encode() + b"x,s=c2FsdA==,i=1000000000", "iterations"),
        (b"r=" + NONCE.encode() + b"x,s=!!,i=4096", "no valid s="),
        (b"r=" + NONCE.encode() + b"x,i=4096", "no valid s="),
        (b"\xff", "no UTF-8"),
        (b"", "nonce does not go on from ours"),
    ],
)
def test_a_challenge_that_is_wrong_ends_the_conversation(challenge: bytes, message: str):
    conversation = Scram("sha256", "user", "pencil", NONCE)
    conversation.first()
    with pytest.raises(AuthenticationFailed, match=message):
        conversation.respond(challenge)


@pytest.mark.parametrize(
    ("final", "message"),
    [
        (b"v=" + base64.b64encode(bytes(32)), "impostor"),
        (b"e=invalid-proof", "the broker says invalid-proof"),
        (b"", "no valid v="),
    ],
)
def test_a_broker_that_does_not_know_the_password_is_not_trusted(final: bytes, message: str):
    conversation = Scram("sha256", "user", "pencil", NONCE)
    conversation.respond(SERVER_FIRST)
    with pytest.raises(AuthenticationFailed, match=message):
        conversation.respond(final)
