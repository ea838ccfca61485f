"""EndpointTokens of a real endpoint: who is told what, how long one is used, and what can go wrong."""

import base64
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from ottla_core.client.errors import AuthenticationFailed, Unreachable
from ottla_core.client.token_endpoint import EndpointTokens, TokenEndpoint
from ottla_core.errors import ConfigurationError
from tests.support.free_ports import LOOPBACK, free_port
from tests.support.servers.certificates import Certificates
from tests.support.servers.token_endpoint import TokenServer

WITHIN_S = 10.0
OAUTH = "sasl.oauthbearer"
CLIENT = {f"{OAUTH}.client.id": "me", f"{OAUTH}.client.secret": "hu:sh"}


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with TokenServer() as serving:
        yield serving


def tokens(url: str, **more: str) -> EndpointTokens:
    named = {name.replace("_", "."): value for name, value in more.items()}
    return EndpointTokens(TokenEndpoint.of({**CLIENT, f"{OAUTH}.token.endpoint.url": url, **named}))


def test_id_secret_and_scope_are_told_as_librdkafka_tells_them(server: TokenServer):
    server.gives("abc")
    assert tokens(server.url, sasl_oauthbearer_scope="read write").current(WITHIN_S) == "abc"
    assert server.asked[0].authorization == f"Basic {base64.b64encode(b'me:hu:sh').decode()}"
    assert parse_qs(server.asked[0].form) == {"grant_type": ["client_credentials"], "scope": ["read write"]}


def test_a_token_is_used_again_while_it_lives(server: TokenServer):
    asking = tokens(server.url)
    server.gives("first", life_s=3600)
    assert [asking.current(WITHIN_S), asking.current(WITHIN_S)] == ["first", "first"]
    assert len(server.asked) == 1


@pytest.mark.parametrize("life_s", [0, -1, float("nan")])
def test_one_without_a_life_serves_one_connection(server: TokenServer, life_s: float):
    asking = tokens(server.url)
    server.gives("first", life_s)
    assert asking.current(WITHIN_S) == "first"
    server.gives("second", life_s)
    assert asking.current(WITHIN_S) == "second"


def test_who_is_not_known_there_cannot_log_in(server: TokenServer):
    server.status = 401
    with pytest.raises(AuthenticationFailed, match="gives no token to me: 401") as told:
        tokens(server.url).current(WITHIN_S)
    assert "sh" not in str(told.value).removeprefix(server.url)


def test_an_endpoint_that_is_out_of_order_may_work_again(server: TokenServer):
    asking = tokens(server.url)
    server.status = 503
    with pytest.raises(Unreachable, match="503"):
        asking.current(WITHIN_S)
    server.gives("abc")
    assert asking.current(WITHIN_S) == "abc"


@pytest.mark.parametrize(
    "body",
    [b"<html>", b"[]", b'{"access_token": 7}', b'{"access_token": ""}', b'{"access_token": "a\\u0001auth=x"}', b"{}"],
)
def test_what_is_no_token_is_not_shown_to_a_broker(server: TokenServer, body: bytes):
    server.body = body
    with pytest.raises(Unreachable, match="gives no token"):
        tokens(server.url).current(WITHIN_S)


def test_another_address_is_not_told_the_secret(server: TokenServer):
    server.status, server.headers = 302, {"Location": f"{server.url}/elsewhere"}
    with pytest.raises(Unreachable, match="302"):
        tokens(server.url).current(WITHIN_S)
    assert len(server.asked) == 1


def test_where_nothing_listens_is_told():
    with pytest.raises(Unreachable, match="Connection refused"):
        tokens(f"http://{LOOPBACK}:{free_port()}").current(WITHIN_S)


def test_a_name_that_can_be_no_hosts_is_told():
    with pytest.raises(Unreachable, match="its name can be no host's"):
        tokens("http://a..b").current(WITHIN_S)


def test_only_an_endpoint_that_is_trusted_is_told_the_secret(tmp_path: Path):
    certificates = Certificates(tmp_path / "certificates")
    with TokenServer(certificates) as server:
        server.gives("abc")
        with pytest.raises(Unreachable, match="certificate"):
            tokens(server.url).current(WITHIN_S)
        assert not server.asked
        assert tokens(server.url, https_ca_location=str(certificates.path("ca.pem"))).current(WITHIN_S) == "abc"
        pem = certificates.path("ca.pem").read_text()
        assert tokens(server.url, https_ca_pem=pem).current(WITHIN_S) == "abc"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "token.endpoint.url and .*client.id and .*client.secret: must be set"),
        ({f"{OAUTH}.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer"}, "grant.type: .* not supported here"),
        ({f"{OAUTH}.method": "default"}, "method: default is not supported here; oidc is"),
        ({f"{OAUTH}.metadata.authentication.type": "azure_imds"}, "azure_imds is not supported here"),
        ({**CLIENT, f"{OAUTH}.token.endpoint.url": "file:///t"}, "no http"),
        ({**CLIENT, f"{OAUTH}.token.endpoint.url": "http://t", f"{OAUTH}.extensions": "a"}, "name=value"),
        ({**CLIENT, f"{OAUTH}.token.endpoint.url": "http://t", f"{OAUTH}.extensions": "auth=x"}, "name=value"),
        (
            {**CLIENT, f"{OAUTH}.token.endpoint.url": "https://t", "https.ca.location": "/nowhere.pem"},
            "https.ca.location /nowhere.pem",
        ),
    ],
)
def test_what_cannot_be_used_is_named(settings: dict[str, str], said: str):
    with pytest.raises(ConfigurationError, match=said):
        TokenEndpoint.of(settings)


@pytest.mark.parametrize("address", ["me:hunter2@127.0.0.1:1", "hunter2@127.0.0.1", "me:hunter2@127.0.0.1"])
def test_an_address_with_a_login_is_refused_without_telling_it(address: str):
    """It would not be sent, and errors that name the address stand in logs and in answers of workers."""
    with pytest.raises(
        ConfigurationError, match=f"{OAUTH}.token.endpoint.url: .*127.0.0.1.*client.secret"
    ) as refused:
        tokens(f"http://{address}/token")
    assert "hunter2" not in str(refused.value)
