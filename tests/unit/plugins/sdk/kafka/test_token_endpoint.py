"""Clients with settings of Java's clients ask a real token endpoint for their tokens."""

import base64
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from ottla_sdk.kafka.client_settings import ClientRules, librdkafka_settings
from tests.support.eventually import eventually

OAUTH = "org.apache.kafka.common.security.oauthbearer"


class TokenEndpoint(ThreadingHTTPServer):
    """Refuses everybody, and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.asked: list[tuple[str, str]] = []


class Asked(BaseHTTPRequestHandler):
    server: TokenEndpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append((self.headers["Authorization"], body))
        self.send_error(401)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with TokenEndpoint() as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server
        server.shutdown()
        serving.join()


@pytest.mark.parametrize("client", [Producer, Consumer, AdminClient])
def test_id_secret_and_scope_of_the_login_reach_it(endpoint: TokenEndpoint, client: Callable[..., Any]) -> None:
    settings = librdkafka_settings(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{endpoint.server_port}/token",
            "sasl.jaas.config": f'{OAUTH}.OAuthBearerLoginModule required clientId="me" clientSecret="hush" '
            'scope="kafka";',
        },
        ClientRules(),
    )
    group = {"group.id": "g"} if client is Consumer else {}
    made = client({**settings, **group, "log_level": 0})
    eventually(lambda: bool(endpoint.asked), "the client has asked for a token")
    authorization, body = endpoint.asked[0]
    assert authorization == f"Basic {base64.b64encode(b'me:hush').decode()}"
    assert parse_qs(body) == {"grant_type": ["client_credentials"], "scope": ["kafka"]}
    if client is Consumer:
        made.close()
