"""Clients with settings of Java's clients ask a real token endpoint for their tokens."""

import base64
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from ottla_sdk.kafka.client_settings import ClientRules, librdkafka_settings
from tests.support.eventually import eventually
from tests.support.servers.token_endpoint import TokenServer

OAUTH = "org.apache.kafka.common.security.oauthbearer"


@pytest.fixture
def endpoint() -> Iterator[TokenServer]:
    with TokenServer() as server:
        server.status = 401
        yield server


@pytest.mark.parametrize("client", [Producer, Consumer, AdminClient])
def test_id_secret_and_scope_of_the_login_reach_it(endpoint: TokenServer, client: Callable[..., Any]) -> None:
    settings = librdkafka_settings(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": endpoint.url,
            "sasl.jaas.config": f'{OAUTH}.OAuthBearerLoginModule required clientId="me" clientSecret="hush" '
            'scope="kafka";',
        },
        ClientRules(),
    )
    group = {"group.id": "g"} if client is Consumer else {}
    made = client({**settings, **group, "log_level": 0})
    eventually(lambda: bool(endpoint.asked), "the client has asked for a token")
    asked = endpoint.asked[0]
    assert asked.authorization == f"Basic {base64.b64encode(b'me:hush').decode()}"
    assert parse_qs(asked.form) == {"grant_type": ["client_credentials"], "scope": ["kafka"]}
    if client is Consumer:
        made.close()
