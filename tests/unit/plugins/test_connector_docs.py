"""The pages about connectors say what the classes say."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla_sdk.config_description import describe

ROOT = Path(__file__).parents[3]


PAGES = ROOT / "docs" / "connectors"


def generator() -> Any:
    loader = SourceFileLoader("generate_connector_docs", str(ROOT / "scripts" / "generate-connector-docs"))
    specification = spec_from_loader(loader.name, loader)
    assert specification is not None
    module = module_from_spec(specification)
    loader.exec_module(module)
    return module


def test_the_pages_are_what_scripts_generate_connector_docs_would_write() -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in PAGES.glob("*.md")}

    assert written == generator().pages()


def examples() -> Iterator[Any]:
    """Yield each connector that a page shows."""
    for page in sorted(PAGES.glob("*.md")):
        for block in re.findall(r"(?:^    .+\n)+", page.read_text(encoding="utf-8"), re.MULTILINE):
            if "connector.class:" in block:
                yield pytest.param(yaml.safe_load(block), id=f"{page.stem}-{yaml.safe_load(block)['name']}")


@pytest.mark.parametrize("example", list(examples()))
def test_the_settings_that_a_page_shows_are_valid(example: dict[str, Any]) -> None:
    settings = example["config"]
    classes = {
        f"{each.__module__}.{each.__name__}": each
        for _, module in generator().modules()
        for each in generator().answers(module, "ottla_connectors")
    }
    plugin = classes[settings["connector.class"]]

    plugin.config_model.parse(settings)
    assert all(isinstance(value, str) for value in settings.values())
    described = {each.key.replace("NAME", "*") for each in describe(plugin.config_model)}
    known = {"connector.class", "tasks.max", "topics", "value.converter", *described}
    assert [key for key in settings if not any(fnmatchcase(key, pattern) for pattern in known)] == []
