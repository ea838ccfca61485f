"""References to config providers are resolved, and put back."""

import pytest

from ottla_sdk import RetriableError
from ottla_sdk.runtime.config_providers import ConfigProviders, ProviderAway, UnresolvedReference
from ottla_sdk.runtime.plugin_lookup import PluginLookup
from ottla_sdk.runtime.redaction import Redaction


@pytest.fixture
def secrets(tmp_path):
    path = tmp_path / "db.properties"
    path.write_text("password=hunter22\nhost=db.example\n")
    return path


@pytest.fixture
def redaction():
    return Redaction()


@pytest.fixture
def providers(redaction):
    worker = {
        "bootstrap.servers": "localhost:9092",
        "key.converter.secret": "plain",
        "config.providers": "file, broken",
        "config.providers.file.class": "FileConfigProvider",
        "config.providers.broken.class": "NoSuchProvider",
    }
    return ConfigProviders(worker, PluginLookup(), redaction)


def test_references_are_resolved_and_their_values_hidden(providers, secrets, redaction):
    written = {"url": f"sql://joe:${{file:{secrets}:password}}@${{file:{secrets}:host}}", "other": "x"}
    assert providers.resolve(written) == {"url": "sql://joe:hunter22@db.example", "other": "x"}
    assert redaction.text("cannot log in with hunter22") == f"cannot log in with ${{file:{secrets}:password}}"


def test_a_value_that_is_not_there_is_told_with_its_reference(providers, secrets):
    with pytest.raises(UnresolvedReference, match="no-such-key"):
        providers.resolve({"x": f"${{file:{secrets}:no-such-key}}"})
    assert "no-such-key" in (providers.problem(f"${{file:{secrets}:no-such-key}}") or "")
    assert providers.problem(f"${{file:{secrets}:host}}") is None


def test_a_reference_to_an_unknown_provider_stays(providers):
    assert providers.resolve({"x": "${vault:a:b}"}) == {"x": "${vault:a:b}"}


def test_a_provider_that_is_away_for_now_is_asked_again_later(providers, secrets, monkeypatch):
    providers.resolve({"x": f"${{file:{secrets}:host}}"})

    def refuse(path: str, key: str) -> str:
        raise RetriableError("the vault is sealed")

    monkeypatch.setattr(providers._providers["file"], "get", refuse)
    with pytest.raises(ProviderAway, match="sealed") as caught:
        providers.resolve({"x": f"${{file:{secrets}:password}}"})
    assert isinstance(caught.value, RetriableError)
    assert "sealed" in (providers.problem(f"${{file:{secrets}:password}}") or "")


def test_a_provider_that_cannot_be_made_is_told(providers):
    with pytest.raises(UnresolvedReference, match="NoSuchProvider"):
        providers.resolve({"x": "${broken:a}"})


def test_the_workers_own_settings_are_resolved_without_those_of_the_providers(providers):
    assert providers.resolve_worker_settings() == {
        "bootstrap.servers": "localhost:9092",
        "key.converter.secret": "plain",
    }


def test_a_setting_that_a_connector_has_made_of_a_secret_gets_the_reference_back(providers, secrets):
    password = f"${{file:{secrets}:password}}"
    providers.resolve({"password": password, "host": f"${{file:{secrets}:host}}"})
    assert providers.restored("sql://joe:hunter22@there") == f"sql://joe:{password}@there"
    assert providers.restored("nothing of it") == "nothing of it"
