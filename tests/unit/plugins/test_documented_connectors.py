"""The connectors, converters, transforms and providers that pages show are taken by a worker's own validation."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla.connect.connector_files import parse_connectors
from ottla_connect.config import WorkerConfig
from ottla_connect.task.settings.validation import Validation
from ottla_datagen import DatagenSource
from ottla_sdk.runtime.config_providers import ConfigProviders
from ottla_sdk.runtime.plugin_lookup import PluginLookup
from ottla_sdk.runtime.redaction import Redaction
from tests.documents.documents import ROOT

PIPELINES = sorted((ROOT / "examples/pipelines").glob("*.yaml"))
OF_A_NEW_PLUGIN = ROOT / "docs/plugins.md"
"""Its connector is of the plugin that the page has its reader write; `tests/documents` creates both."""
PAGES = [ROOT / "README.md", *sorted({*(ROOT / "docs").rglob("*.md")} - {OF_A_NEW_PLUGIN}), *PIPELINES]
REFERENCE = ROOT / "docs/connectors"
INDENTED = re.compile(r"^(?:    .*\n|\n(?=    ))+", re.MULTILINE)
FENCED = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECRET = re.compile(r"\$\{\w+:[^}]*\}")
AWAY = re.compile("resolve host|is not there|there is no directory")
"""What a connector's own check says where the example's machines and folders are not there."""


def blocks(text: str) -> Iterator[str]:
    """The indented blocks and those of YAML, without their indentation."""
    yield from FENCED.findall(text)
    for block in INDENTED.findall(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)):
        yield re.sub("^    ", "", block, flags=re.MULTILINE)


def connectors() -> Iterator[Any]:
    """Each connector that a page or an example shows, with its settings."""
    for page in PAGES:
        text = page.read_text()
        for block in [text] if page.suffix == ".yaml" else blocks(text):
            if "connector.class" in block:
                for each in parse_connectors(block, page.name):
                    settings = {"name": each.name, **each.config}
                    yield pytest.param(settings, id=f"{page.relative_to(ROOT)}-{each.name}")


def errors(settings: Mapping[str, str]) -> dict[str, list[str]]:
    """What is wrong with a connector's settings, by the setting."""
    lookup, redaction = PluginLookup(), Redaction()
    providers = ConfigProviders({}, lookup, redaction)
    known = {key: SECRET.sub("secret", value) for key, value in settings.items()}
    validation = Validation(
        known, worker=WorkerConfig.parse({}), lookup=lookup, providers=providers, redaction=redaction
    )
    infos = validation.run()["configs"]
    return {each["value"]["name"]: each["value"]["errors"] for each in infos if each["value"]["errors"]}


@pytest.mark.parametrize("settings", [*connectors()])
def test_a_connector_that_a_page_shows_is_valid(settings: Mapping[str, str]) -> None:
    found = {key: [each for each in said if not AWAY.search(each)] for key, said in errors(settings).items()}

    assert {key: said for key, said in found.items() if said} == {}


@pytest.mark.parametrize("page", ["converters.md", "transforms.md"])
def test_converters_and_transforms_that_a_page_shows_are_valid(page: str) -> None:
    (shown,) = [
        block for block in blocks((REFERENCE / page).read_text()) if "converter:" in block or ".type:" in block
    ]
    settings = {key: str(value) for key, value in yaml.safe_load(shown).items()}
    source = {"name": "x", "connector.class": "DatagenSource", "topic": "x", "datagen.quickstart": "users"}

    assert errors({**source, **settings}) == {}
    assert errors({**source, **dict.fromkeys(settings, "?")}) != {}


def test_the_config_provider_that_a_page_shows_resolves(tmp_path: Path) -> None:
    lines = "\n".join(blocks((REFERENCE / "config-providers.md").read_text()))
    settings = {key: str(value) for key, value in yaml.safe_load(lines).items()}
    reference = settings.pop("connection.password").replace("/run/secrets", str(tmp_path))
    (tmp_path / "database.properties").write_text("password=sesame\n")
    WorkerConfig.parse(settings)

    assert ConfigProviders(settings, PluginLookup(), Redaction()).resolve({"x": reference}) == {"x": "sesame"}


def test_the_data_schema_that_a_page_shows_is_valid() -> None:
    (shown,) = [block for block in blocks((REFERENCE / "datagen.md").read_text()) if '"generator"' in block]

    connector = DatagenSource()
    connector.configure({"topic": "readings", "datagen.schema": json.dumps(json.loads(shown))})
    assert [*connector.check()] == []
