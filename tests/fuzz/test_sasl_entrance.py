"""Mutated logins against the entrance of a listener with SASL, for OTTLA_FUZZ_SECONDS (5 by default).

Whatever a client sends, the machines of the mechanisms answer, refuse or ask, the gate answers or closes, and nobody
is let in who has not proved it. A failure prints the seed: OTTLA_FUZZ_SEED repeats the run.
"""

import asyncio
import contextlib

from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v0.request import SaslHandshakeRequest as SaslHandshakeRequestV0
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from ottla_broker.sasl.bearer import Bearer
from ottla_broker.sasl.exchange import Accepted, CredentialWanted, FoundCredential, TokenShown
from ottla_broker.sasl.jaas import PLAIN_MODULE, parse_jaas
from ottla_broker.sasl.plain import Plain
from ottla_broker.sasl.scram import Scram
from ottla_core.cluster.state.security import ScramCredential, ScramMechanism
from ottla_core.errors import ConfigurationError, InvalidRequest
from ottla_core.principal import ANONYMOUS, USER, Principal
from ottla_core.tokens.token_check import BadKeySetError, BadTokenError, read_key_set, verified_claims
from ottla_core.tokens.token_claims import ClaimRules, judge_claims
from tests.fuzz.test_parsers import mutated, rounds
from tests.support.clients.raw_client import encode_request
from tests.support.clients.raw_requests import metadata_request
from tests.support.servers.issuer import Issuer
from tests.unit.broker.test_sasl_gate import gated, send

NOBODYS = ScramCredential(salt=b"salt" * 6, stored_key=bytes(32), server_key=bytes(32), iterations=4096)
FOUND = FoundCredential(credential=NOBODYS, is_known=True, principal=Principal(USER, "ann"))
FIRST = b"n,a=ann,n=ann,r=rOprNGfwEbeRWgbNEkqO,tokenauth=true"
FINAL = b"c=bixhPWFubiw=,r=rOprNGfwEbeRWgbNEkqOserver,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
RULES = ClaimRules(
    audiences=frozenset({"ottla"}), issuer="issuer", subject_claim="sub", scope_claim="scope", skew_s=30
)


def test_mechanisms_accept_nobody_and_never_fail() -> None:
    for source in rounds(0.3):
        scram = Scram(ScramMechanism.SHA_256, "server")
        if isinstance(scram.respond(mutated(source, FIRST)), CredentialWanted):
            scram.go_on(FOUND)
            assert not isinstance(scram.respond(mutated(source, FINAL)), Accepted)
        assert not isinstance(Plain({"ann": "secret" * 5}).respond(mutated(source, b"ann\0ann\0wrong")), Accepted)
        bearer = Bearer()
        step = bearer.respond(mutated(source, b"n,a=ann,\x01auth=Bearer aaa.bbb.ccc\x01key=value\x01\x01"))
        assert not isinstance(step, Accepted)
        if isinstance(step, TokenShown):
            assert step.token


def test_tokens_and_keys_are_read_or_refused() -> None:
    issuer = Issuer(algorithm="ES256")
    content, token = issuer.key_set(), issuer.token(aud="ottla", iss="issuer").encode()
    right = read_key_set(content)
    for source in rounds(0.3):
        with contextlib.suppress(BadKeySetError, BadTokenError):
            read_key_set(mutated(source, content))
            changed = mutated(source, token)
            claims = verified_claims(changed.decode("latin-1"), right)
            if changed != token:
                # Bits at the end of base64 may differ without any meaning; what is signed may not.
                assert changed.rpartition(b".")[0] == token.rpartition(b".")[0]
            judge_claims(claims, RULES, source.randrange(2**44))


def test_texts_of_login_modules_are_read_or_refused() -> None:
    text = f'{PLAIN_MODULE} required username="a" /* b */ user_a="\\"x\\"" // c\n user_b=word ;'.encode()
    for source in rounds(0.1):
        with contextlib.suppress(ConfigurationError):
            parse_jaas(mutated(source, text).decode("latin-1"))


def test_the_gate_lets_nobody_in() -> None:
    frames = [
        encode_request(ApiVersionsRequest(client_software_name="c", client_software_version="1"), 1),
        encode_request(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1),
        encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1),
        encode_request(SaslHandshakeRequestV0(mechanism="PLAIN"), 1),
        encode_request(SaslAuthenticateRequest(auth_bytes=FIRST), 1),
        encode_request(SaslAuthenticateRequest(auth_bytes=b"\0bob\0xyz"), 1),
        encode_request(metadata_request([]), 1),
        b"\0bob\0xyz",
    ]

    async def run() -> None:
        for source in rounds(0.3):
            peer = gated(lifetime_ms=source.choice([0, 60_000]))
            for _ in range(5):
                with contextlib.suppress(InvalidRequest):
                    await send(peer, mutated(source, source.choice(frames)))
                assert peer.principal == ANONYMOUS
                assert peer.gate is not None
                if peer.is_closed:
                    break

    asyncio.run(run())
