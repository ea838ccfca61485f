"""What the documents name exists."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from ottla.command_tree import app

ROOT = Path(__file__).parents[2]
SOURCES = {path.name for path in ROOT.rglob("*.py") if ".venv" not in path.parts}


def test_every_source_file_that_the_architecture_names_exists() -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", (ROOT / "ARCHITECTURE.md").read_text()))

    assert named
    assert {name for name in named if Path(name).name not in SOURCES} == set()
    assert {name for name in named if name.startswith(("core/", "services/")) and not (ROOT / name).exists()} == set()


def test_every_folder_that_the_architecture_names_exists() -> None:
    named = set(re.findall(r"\| `((?:\w+/)+)` \|", (ROOT / "ARCHITECTURE.md").read_text()))

    assert named
    assert {name for name in named if not (ROOT / name).is_dir()} == set()


@pytest.mark.parametrize("document", ["README.md", "ARCHITECTURE.md", "STYLE.md"])
def test_every_make_target_that_a_document_names_exists(document: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:`|^    )make ([a-z]+)", (ROOT / document).read_text(), re.MULTILINE))

    assert named <= targets


def test_every_command_that_the_readme_names_exists() -> None:
    root = get_command(app)
    named = re.findall(r"ottla ((?:[a-z]+ ?)+)", (ROOT / "README.md").read_text())
    commands = set(root.list_commands(None))  # type: ignore[attr-defined,arg-type]

    called = {words.split()[0] for words in named if words.split()[0] in commands}
    assert called >= {"up", "status", "down", "topic", "config", "produce", "consume", "group", "log", "bench"}
