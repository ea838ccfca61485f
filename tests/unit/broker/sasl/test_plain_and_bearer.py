"""PLAIN and OAUTHBEARER on the server's side, message by message."""

import pytest

from ottla_broker.sasl.bearer import Bearer
from ottla_broker.sasl.exchange import Accepted, Challenge, Refused, TokenShown
from ottla_broker.sasl.plain import Plain
from ottla_core.client import sasl as client_sasl
from ottla_core.principal import USER, Principal
from ottla_core.tokens.token_claims import ClaimRules, Judgement, judge_claims

USERS = {"ann": "secret", "bob": "pässword"}
NOW_MS = 1_800_000_000_000
NOW_S = NOW_MS // 1000
RULES = ClaimRules(audiences=frozenset(), issuer=None, subject_claim="sub", scope_claim="scope", skew_s=30)


@pytest.mark.parametrize("message", [b"\0ann\0secret", b"ann\0ann\0secret"])
def test_the_right_password_is_accepted(message: bytes) -> None:
    assert Plain(USERS).respond(message) == Accepted(principal=Principal(USER, "ann"))


def test_our_client_agrees() -> None:
    message = client_sasl.begin("PLAIN", "bob", "pässword", nonce="").first()
    assert isinstance(Plain(USERS).respond(message), Accepted)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\0ann\0wrong",
        b"\0ann\0",
        b"\0\0secret",
        b"\0nobody\0secret",
        b"\0nobody\0",
        b"bob\0ann\0secret",
        b"ann\0secret",
        b"\0ann\0secret\0",
        b"\0ann\0sec\xffret",
        b"\0ann\0" + b"s" * 20_000,
    ],
)
def test_anything_else_is_refused(message: bytes) -> None:
    assert isinstance(Plain(USERS).respond(message), Refused)


def test_no_second_attempt_is_taken() -> None:
    exchange = Plain(USERS)
    exchange.respond(b"\0ann\0wrong")
    assert isinstance(exchange.respond(b"\0ann\0secret"), Refused)


def test_a_token_is_judged_and_names_the_client() -> None:
    exchange = Bearer()
    message = client_sasl.begin("OAUTHBEARER", "", "aaa.bbb.ccc", {"logicalCluster": "one"}, nonce="").first()
    assert exchange.respond(message) == TokenShown("aaa.bbb.ccc")
    assert exchange.judge(Judgement(subject="ann", expires_ms=7)) == Accepted(
        principal=Principal(USER, "ann"), expires_ms=7
    )
    assert isinstance(exchange.respond(message), Refused)


def test_a_token_that_is_refused_is_answered_before_the_end() -> None:
    exchange = Bearer()
    exchange.respond(b"n,,\x01auth=Bearer aaa.bbb.ccc\x01\x01")
    challenge = exchange.judge(Judgement(reason="it expired"))
    assert challenge == Challenge(b'{"status":"invalid_token"}', refusal="it expired")
    assert exchange.respond(b"\x01") == Refused("it expired")


def test_a_second_token_on_one_exchange_is_refused() -> None:
    exchange = Bearer()
    message = b"n,,\x01auth=Bearer aaa.bbb.ccc\x01\x01"
    exchange.respond(message)
    exchange.judge(Judgement(reason="it expired"))
    assert isinstance(exchange.respond(message), Refused)


def test_a_token_for_somebody_else_is_refused() -> None:
    exchange = Bearer()
    exchange.respond(b"n,a=bob,\x01auth=Bearer aaa.bbb.ccc\x01\x01")
    assert isinstance(exchange.judge(Judgement(subject="ann", expires_ms=7)), Refused)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic aaa\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=Bearer a\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,,\x01auth=Bearer " + b"a" * 70_000 + b"\x01\x01",
    ],
)
def test_what_shows_no_token_is_refused(message: bytes) -> None:
    assert isinstance(Bearer().respond(message), Refused)


def test_a_token_is_not_in_what_is_printed() -> None:
    assert "aaa" not in repr(TokenShown("aaa.bbb.ccc"))


def claims(**changed: object) -> dict[str, object]:
    return {"sub": "ann", "iat": NOW_S - 10, "exp": NOW_S + 60, **changed}


def test_claims_name_the_client_and_the_end() -> None:
    assert judge_claims(claims(), RULES, NOW_MS) == Judgement(subject="ann", expires_ms=NOW_MS + 60_000)


def test_clocks_may_differ_a_little() -> None:
    assert judge_claims(claims(exp=NOW_S - 20, iat=NOW_S + 20), RULES, NOW_MS).subject == "ann"


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": None},
        {"exp": "soon"},
        {"exp": True},
        {"exp": float("nan")},
        {"exp": 1e30},
        {"exp": NOW_S - 31},
        {"iat": None},
        {"iat": NOW_S + 31},
        {"nbf": NOW_S + 31},
        {"nbf": "x"},
        {"sub": None},
        {"sub": " "},
        {"sub": 7},
        {"scope": 7},
        {"iss": "other"},
        {"aud": "other"},
        {"aud": ["other", 7]},
        {"aud": None},
    ],
)
def test_claims_that_do_not_hold_are_refused(changed: dict[str, object]) -> None:
    strict = ClaimRules(
        audiences=frozenset({"kafka"}), issuer="https://issuer", subject_claim="sub", scope_claim="scope", skew_s=30
    )
    right = claims(iss="https://issuer", aud=["web", "kafka"])
    assert judge_claims(right, strict, NOW_MS).subject == "ann"
    refused = judge_claims(right | changed, strict, NOW_MS)
    assert refused.subject is None
    assert refused.reason
