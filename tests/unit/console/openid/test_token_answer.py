"""What a token endpoint answers."""

import json

import pytest

from ottla_console.openid.token_answer import LIFE_S_MAX, LIFE_S_UNTOLD, BadTokenAnswer, refusal_of, token_answer


def answer(**others: object) -> bytes:
    return json.dumps({"access_token": "a.b-c", "token_type": "Bearer", **others}).encode()


@pytest.mark.parametrize(
    ("told", "life_s"),
    [
        (60, 60.0), ("60", 60.0), (None, LIFE_S_UNTOLD), ("soon", LIFE_S_UNTOLD), (-5, 0.0), (10**12, LIFE_S_MAX),
        ("nan", LIFE_S_UNTOLD), (10**400, LIFE_S_UNTOLD),
    ],
)  # fmt: skip
def test_a_life_that_is_not_told_or_makes_no_sense_is_bounded(told: object, life_s: float) -> None:
    assert token_answer(answer(expires_in=told)).life_s == life_s


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"{}", answer(access_token=None), answer(access_token=""), answer(access_token="a b"),
        answer(access_token="a\x01auth=Bearer b"), answer(token_type="mac"), answer(token_type=None),
    ],
)  # fmt: skip
def test_what_is_no_bearer_token_is_refused(content: bytes) -> None:
    with pytest.raises(BadTokenAnswer):
        token_answer(content)


def test_tokens_are_not_printed() -> None:
    told = repr(token_answer(answer(access_token="secret-a", id_token="secret-i", refresh_token="secret-r")))
    assert "secret" not in told


def test_a_refusal_is_one_line() -> None:
    assert (
        refusal_of(b'{"error": "invalid_grant", "error_description": "too\\n\\nlate"}') == "invalid_grant: too late"
    )
    assert refusal_of(b"<html>") == ""
