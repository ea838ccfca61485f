"""References in a link's settings: only what the broker's own settings allow is looked up for them."""

from pathlib import Path

import pytest

from ottla_broker.config import BrokerConfig
from ottla_broker.links.link_settings import is_reference, resolver
from ottla_core.errors import ConfigurationError


def providers(directory: Path) -> dict[str, str]:
    return {
        "config.providers": "file,env",
        "config.providers.file.class": "FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(directory),
        "config.providers.env.class": "EnvVarConfigProvider",
        "config.providers.env.param.allowlist.pattern": "LINK_.*",
    }


def test_references_are_replaced_and_all_else_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINK_SECRET", "s3cret")
    (tmp_path / "keys").write_text("user = alice\npassword=a=b\n")
    settings = {"a": "plain", "b": "${env:LINK_SECRET}", "c": f"${{file:{tmp_path}/keys:password}}"}
    assert resolver(providers(tmp_path))(settings) == {"a": "plain", "b": "s3cret", "c": "a=b"}


def test_a_value_that_has_changed_is_read_anew(tmp_path: Path) -> None:
    resolve = resolver(providers(tmp_path))
    for value in ("one", "two"):
        (tmp_path / "keys").write_text(f"password={value}\n")
        assert resolve({"sasl.password": f"${{file:{tmp_path}/keys:password}}"}) == {"sasl.password": value}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("${env:HOME}", "sasl.password: .*not allowed by allowlist.pattern"),
        ("${vault:a:b}", "sasl.password: .*refers to a config provider vault"),
        ("${file:/etc/passwd:root}", "sasl.password: .*allowed.paths"),
    ],
)
def test_a_reference_that_the_broker_does_not_allow_is_named(tmp_path: Path, value: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        resolver(providers(tmp_path))({"sasl.password": value})


def test_without_providers_nothing_is_looked_up(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("password=secret\n")
    with pytest.raises(ConfigurationError, match="config provider file, which the worker does not have"):
        resolver({})({"sasl.password": f"${{file:{tmp_path}/keys:password}}"})


def test_the_brokers_settings_may_name_providers(tmp_path: Path) -> None:
    given = providers(tmp_path)
    config = BrokerConfig.model_validate({"node.id": 1, "log.dirs": (tmp_path,), **given})
    assert config.config_providers == given


def test_only_a_whole_reference_hides_nothing() -> None:
    assert is_reference("${env:A}")
    assert not is_reference("x${env:A}")
    assert not is_reference("secret")
