"""How long a user's token is good, and when it is renewed."""

from collections.abc import Iterator

import pytest

from ottla_console.clusters.credentials import TokenLogin
from ottla_console.openid.access_tokens import AccessTokens
from ottla_console.openid.provider import ProviderRefused
from ottla_console.openid.token_answer import TokenAnswer
from ottla_operations.errors import OperationError


class Provider:
    """Answers by the list; an exception is raised."""

    def __init__(self, *answers: TokenAnswer | Exception) -> None:
        self.now_s = 0.0
        self.asked: list[str] = []
        self._answers: Iterator[TokenAnswer | Exception] = iter(answers)

    def refreshed(self, refresh_token: str) -> TokenAnswer:
        self.asked.append(refresh_token)
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def tokens(self, first: TokenAnswer) -> AccessTokens:
        return AccessTokens(first, self.refreshed, lambda: self.now_s, lambda: 1000.0 + self.now_s)


def token(name: str, refresh_token: str | None = None) -> TokenAnswer:
    return TokenAnswer(access_token=name, life_s=100, refresh_token=refresh_token)


def test_a_token_is_renewed_when_little_of_its_life_is_left() -> None:
    provider = Provider(token("second"), token("third", "r2"), token("fourth"))
    tokens = provider.tokens(token("first", "r1"))
    assert tokens.current() == ("first", 1100.0)
    provider.now_s = 79
    assert tokens.current()[0] == "first"
    provider.now_s = 81
    assert tokens.current() == ("second", 1181.0)
    provider.now_s = 162
    assert tokens.current()[0] == "third"
    provider.now_s = 243
    assert tokens.current()[0] == "fourth"
    assert provider.asked == ["r1", "r1", "r2"]  # a provider may draw new ones, or leave the former


def test_without_a_refresh_token_the_sign_in_is_over_with_the_token() -> None:
    provider = Provider()
    tokens = provider.tokens(token("first"))
    provider.now_s = 90
    assert (tokens.current()[0], tokens.has_ended) == ("first", False)
    provider.now_s = 96
    assert tokens.has_ended
    with pytest.raises(OperationError, match="sign in again"):
        tokens.current()


def test_a_refusal_of_the_provider_ends_the_sign_in_for_good() -> None:
    provider = Provider(ProviderRefused("invalid_grant"))
    tokens = provider.tokens(token("first", "r1"))
    provider.now_s = 81
    with pytest.raises(OperationError, match="invalid_grant"):
        tokens.current()
    assert tokens.has_ended
    with pytest.raises(OperationError, match="sign in again"):
        tokens.current()
    assert len(provider.asked) == 1


def test_while_the_provider_does_not_answer_the_token_serves_as_long_as_it_is_good() -> None:
    silent = OperationError("no answer")
    provider = Provider(silent, silent, token("second"))
    tokens = provider.tokens(token("first", "r1"))
    provider.now_s = 81
    assert tokens.current()[0] == "first"
    provider.now_s = 96
    with pytest.raises(OperationError, match="no answer"):
        tokens.current()
    assert not tokens.has_ended
    assert tokens.current()[0] == "second"


def test_whoever_has_signed_out_gets_no_token_any_more_not_even_one_that_is_under_way() -> None:
    provider = Provider(token("second"))
    tokens = AccessTokens(
        token("first", "r1"),
        lambda text: (tokens.end(), provider.refreshed(text))[1],
        lambda: provider.now_s,
        lambda: 0.0,
    )
    provider.now_s = 81
    with pytest.raises(OperationError, match="sign in again"):
        tokens.current()
    assert tokens.has_ended


def test_clients_are_given_the_token_and_not_the_settings_of_an_endpoint() -> None:
    login = TokenLogin("ann", None, Provider().tokens(token("first")))
    settings = login.in_settings(
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.oauthbearer.client.secret": "s"}
    )
    callback = settings.pop("oauth_cb")
    assert settings == {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    assert callback("") == ("first", 1100.0)
    assert "first" not in repr(login)
