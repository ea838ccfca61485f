"""What a broker's configuration may say, where its fields have to agree."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from ottla_broker.config import BrokerConfig


def configured(**settings: str) -> BrokerConfig:
    return BrokerConfig.model_validate({"node.id": 1, "log.dirs": (Path("/nowhere"),), **settings})


@pytest.mark.parametrize("key", ["listeners", "advertised.listeners"])
def test_two_listeners_of_one_name_are_refused(key: str) -> None:
    with pytest.raises(ValidationError, match="PLAINTEXT names more than one listener"):
        configured(**{key: "PLAINTEXT://127.0.0.1:9092,PLAINTEXT://127.0.0.1:9093"})


def test_one_listener_may_be_advertised_elsewhere() -> None:
    config = configured(
        **{"listeners": "PLAINTEXT://127.0.0.1:9092", "advertised.listeners": "PLAINTEXT://example:19092"}
    )
    assert [str(listener) for listener in config.advertised_listeners] == ["PLAINTEXT://example:19092"]


LISTENERS = "INTERNAL://0.0.0.0:9092,external://127.0.0.1:19092"
ADVERTISED = "internal://broker-1:9092"
PROTOCOLS = "internal:plaintext, EXTERNAL:PLAINTEXT"


def test_listeners_have_names_of_their_own_in_capitals() -> None:
    config = configured(
        **{
            "listeners": LISTENERS,
            "advertised.listeners": ADVERTISED,
            "listener.security.protocol.map": PROTOCOLS,
            "inter.broker.listener.name": "internal",
        }
    )
    assert [listener.name for listener in config.listeners] == ["INTERNAL", "EXTERNAL"]
    assert config.inter_broker_listener_name == "INTERNAL"
    assert config.as_properties()["listener.security.protocol.map"] == "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"listeners": LISTENERS, "advertised.listeners": ADVERTISED},
            "no security protocol for the listener INTERNAL",
        ),
        ({"listeners": "SASL_SSL://h:1"}, "the listener SASL_SSL speaks TLS and has no certificate"),
        ({"listeners": "SASL_PLAINTEXT://h:1"}, "the listener SASL_PLAINTEXT asks for SASL: set sasl.enabled"),
        ({"listener.security.protocol.map": "PLAINTEXT:TLS"}, "names no security protocol; there are PLAINTEXT, SSL"),
        ({"listener.security.protocol.map": "PLAINTEXT"}, "NAME:PROTOCOL"),
        ({"listener.security.protocol.map": "A:SSL,a:PLAINTEXT"}, "A names more than one listener"),
        ({"listeners": "://h:1"}, "NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients cannot connect to PLAINTEXT://0.0.0.0:9092; say in"),
        ({"listeners": "PLAINTEXT://[::]:9092"}, "clients cannot connect to"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients cannot connect to"),
        ({"inter.broker.listener.name": "other"}, "inter.broker.listener.name is OTHER, which listeners"),
    ],
)
def test_listeners_that_cannot_be_are_refused_with_the_reason(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        configured(**settings)
