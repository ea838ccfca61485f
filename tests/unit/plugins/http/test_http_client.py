"""Authentication and TLS, against a real server."""

import base64
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla_http.client import Answer, AnswerTooLong, Client, NoAnswer, tls_problem
from ottla_http.client_config import HttpClientConfig
from ottla_sdk import FatalError
from tests.support.eventually import eventually
from tests.support.servers.certificates import Certificates
from tests.support.servers.http_service import HttpService, Reply, Request, server_context


@pytest.fixture
def service() -> Iterator[HttpService]:
    with HttpService() as service:
        yield service


def client(url: str, **settings: str) -> Client:
    written = {key.replace("_", "."): value for key, value in settings.items()}
    return Client(HttpClientConfig.parse({"http.url": url, "http.request.timeout.ms": "2000", **written}))


def ask(client: Client, url: str, *, bytes_max: int = 1000, cut: bool = False) -> Answer:
    try:
        return client.send("GET", url, body=None, headers={}, bytes_max=bytes_max, cut=cut)
    finally:
        client.close()


def test_basic_and_bearer_and_api_keys(service: HttpService):
    for settings, header, value in [
        ({"http_auth": "none"}, "Authorization", None),
        (
            {"http_auth": "basic", "http_auth_username": "u", "http_auth_password": "p"},
            "Authorization",
            f"Basic {base64.b64encode(b'u:p').decode()}",
        ),
        ({"http_auth": "bearer", "http_auth_token": "t"}, "Authorization", "Bearer t"),
        (
            {"http_auth": "api-key", "http_auth_api_key_name": "X-Key", "http_auth_api_key_value": "k"},
            "X-Key",
            "k",
        ),
    ]:
        ask(client(service.url, **settings), service.url)
        assert service.requests[-1].headers.get(header) == value


@pytest.mark.parametrize("at", [0, 290, 1190])
@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        ({"http_auth": "basic", "http_auth_username": "u", "http_auth_password": "p"}, "dTpw"),
        ({"http_auth": "bearer", "http_auth_token": "geheim"}, "geheim"),
    ],
)
def test_credentials_that_a_service_repeats_are_not_told(
    service: HttpService, settings: dict[str, str], sent: str, at: int
):
    service.respond = lambda request: Reply(
        status=500, body=b"x" * at + request.headers["Authorization"].encode() + b" is refused"
    )
    answer = ask(client(service.url, **settings), service.url, bytes_max=2000)
    assert sent.encode() in answer.body
    assert sent not in str(answer)
    if not at:
        assert str(answer).endswith("… is refused")


def test_an_api_key_in_the_query_is_not_told(service: HttpService, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    logging.getLogger("httpx").setLevel(logging.DEBUG)
    service.respond = lambda _: Reply(status=500)
    settings = {
        "http_auth": "api-key",
        "http_auth_api_key_name": "key",
        "http_auth_api_key_value": "hidden",
        "http_auth_api_key_in": "query",
    }
    answer = ask(client(service.url, **settings), f"{service.url}/?a=1")
    assert service.requests[0].query == {"a": "1", "key": "hidden"}
    assert "hidden" not in f"{answer!r} {answer} {caplog.text}"
    logging.getLogger("httpx").setLevel(logging.NOTSET)


OAUTH2 = {
    "http_auth": "oauth2",
    "http_auth_oauth2_client_id": "me",
    "http_auth_oauth2_client_secret": "hidden",
    "http_auth_oauth2_scopes": "read write",
}


class TokenServer:
    """Gives tokens, and takes the last one only."""

    def __init__(self, lifetime_s: float = 3600):
        self.given = 0
        self.revoked = False
        self.trouble: Reply | None = None
        self.lifetime_s = lifetime_s

    def respond(self, request: Request) -> Reply:
        if request.path == "/token":
            if self.trouble is not None:
                return self.trouble
            self.given, self.revoked = self.given + 1, False
            return Reply(body={"access_token": f"token-{self.given}", "expires_in": self.lifetime_s})
        accepted = request.headers.get("Authorization") == f"Bearer token-{self.given}" and not self.revoked
        return Reply(status=200 if accepted else 401)


def test_an_oauth2_token_is_used_until_it_expires_and_replaced_when_it_is_not_taken(service: HttpService):
    tokens = TokenServer()
    service.respond = tokens.respond
    asking = client(service.url, **OAUTH2, http_auth_oauth2_token_url=f"{service.url}/token")
    for _ in range(3):
        assert asking.send("GET", service.url, body=None, headers={}, bytes_max=9, cut=True).status == 200
    assert tokens.given == 1
    request = service.requests[0]
    assert request.body == b"grant_type=client_credentials&scope=read+write"
    assert request.headers["Authorization"] == f"Basic {base64.b64encode(b'me:hidden').decode()}"
    tokens.revoked = True
    assert asking.send("GET", service.url, body=None, headers={}, bytes_max=9, cut=True).status == 200
    assert tokens.given == 2
    asking.close()


def test_an_expired_oauth2_token_is_replaced_before_it_is_used(service: HttpService):
    tokens = TokenServer(lifetime_s=0.02)
    service.respond = tokens.respond
    asking = client(
        service.url,
        **OAUTH2,
        http_auth_oauth2_token_url=f"{service.url}/token",
        http_auth_oauth2_client_secret_in="body",
    )
    for _ in range(2):
        asking.send("GET", service.url, body=None, headers={}, bytes_max=9, cut=True)
        expired_s = time.monotonic() + tokens.lifetime_s
        eventually(lambda until_s=expired_s: time.monotonic() > until_s, "the token has expired")
    assert [each.path for each in service.requests] == ["/token", "/", "/token", "/"]
    assert service.requests[0].body.endswith(b"client_id=me&client_secret=hidden")
    assert "Authorization" not in service.requests[0].headers
    asking.close()


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(status=400, body={"error": "invalid_client"}), FatalError),
        (Reply(status=503), NoAnswer),
        (Reply(body=b"<html>"), NoAnswer),
        (Reply(body={"token_type": "bearer"}), NoAnswer),
    ],
)
def test_a_token_server_that_gives_none_is_named(service: HttpService, reply: Reply, error: type[Exception]):
    tokens = TokenServer()
    tokens.trouble = reply
    service.respond = tokens.respond
    asking = client(service.url, **OAUTH2, http_auth_oauth2_token_url=f"{service.url}/token")
    with pytest.raises(error, match="/token answered") as refused:
        ask(asking, service.url)
    assert "hidden" not in str(refused.value)


def test_answers_are_bounded(service: HttpService):
    service.respond = lambda _: Reply(body=b"x" * 5000)
    assert ask(client(service.url), service.url, cut=True).body == b"x" * 1000
    with pytest.raises(AnswerTooLong, match="more than 1000 bytes"):
        ask(client(service.url), service.url)


def test_nobody_listens(service: HttpService):
    service.stop()
    with pytest.raises(NoAnswer, match="ConnectError"):
        ask(client(service.url), service.url)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls") / "certificates")


@pytest.mark.slow
def test_only_a_server_whose_authority_is_trusted_is_talked_to(certificates: Certificates):
    context = server_context(certificates.path("server.pem"), certificates.path("server.key"))
    with HttpService(tls=context) as service:
        assert ask(client(service.url, http_tls_ca=str(certificates.path("ca.pem"))), service.url).status == 200
        assert ask(client(service.url, http_tls_verify="false"), service.url).status == 200
        with pytest.raises(NoAnswer, match="CERTIFICATE_VERIFY_FAILED"):
            ask(client(service.url), service.url)


@pytest.mark.slow
def test_a_client_certificate_is_shown(certificates: Certificates):
    context = server_context(certificates.path("server.pem"), certificates.path("server.key"))
    context.load_verify_locations(certificates.path("ca.pem"))
    context.verify_mode = 2  # CERT_REQUIRED
    settings = {
        "http_tls_ca": str(certificates.path("ca.pem")),
        "http_tls_certificate": str(certificates.path("client.pem")),
        "http_tls_key": str(certificates.path("client.key")),
    }
    with HttpService(tls=context) as service:
        assert ask(client(service.url, **settings), service.url).status == 200


def test_files_that_cannot_be_used_are_named(tmp_path: Path):
    (tmp_path / "empty.pem").write_text("")
    for key in ("http.tls.ca", "http.tls.certificate"):
        for name in ("empty.pem", "missing.pem"):
            config = HttpClientConfig.parse({"http.url": "https://a", key: str(tmp_path / name)})
            problem = tls_problem(config)
            assert problem is not None
            assert problem.key == key
            assert name in problem.message
            with pytest.raises(FatalError, match=name):
                Client(config)
