"""Names of the SDK, which are imported when they are asked for."""

import subprocess
import sys

import pytest

import ottla_sdk


def test_every_name_is_there() -> None:
    assert set(ottla_sdk._MODULE_OF) == set(ottla_sdk.__all__)
    for name in ottla_sdk.__all__:
        assert getattr(ottla_sdk, name) is not None
        assert name in dir(ottla_sdk)


def test_a_name_that_there_is_not_is_told() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ottla_sdk.nonsense  # type: ignore[attr-defined]


def test_the_kit_for_kafka_clients_imports_neither_pydantic_nor_a_client() -> None:
    show = (
        "import sys, ottla_sdk.kafka.client_settings, ottla_sdk.kafka.hung_consumers;"
        "print({'pydantic', 'pluggy', 'confluent_kafka'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", show], check=True, capture_output=True, text=True, timeout=60)
    assert shown.stdout.strip() == "set()"
