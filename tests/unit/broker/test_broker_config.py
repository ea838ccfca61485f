"""What a broker's configuration may say, where its fields have to agree."""

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
