"""What the documents name exists."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from ottla.command_tree import app

ROOT = Path(__file__).parents[2]
PAGES = [
    *("README.md", "ARCHITECTURE.md", "STYLE.md", "CONTRIBUTING.md", "examples/README.md"),
    *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")),
]
ARCHITECTURE = [ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs/internals").glob("*.md"))]
SOURCES = {path.name for path in ROOT.rglob("*.py") if ".venv" not in path.parts}


def test_every_source_file_that_the_architecture_names_exists() -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", "\n".join(page.read_text() for page in ARCHITECTURE)))

    assert named
    assert {name for name in named if Path(name).name not in SOURCES} == set()
    assert {name for name in named if name.startswith(("core/", "services/")) and not (ROOT / name).exists()} == set()


def test_every_folder_that_the_architecture_names_exists() -> None:
    named = set(re.findall(r"\| `((?:\w+/)+)` \|", "\n".join(page.read_text() for page in ARCHITECTURE)))

    inner = {path.parent.name for path in (ROOT / "services").rglob("src/*/**/__init__.py")}
    assert named
    assert {name for name in named if not (ROOT / name).is_dir() and name.rstrip("/") not in inner} == set()


@pytest.mark.parametrize("document", PAGES)
def test_every_make_target_that_a_document_names_exists(document: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:`|^    )make ([a-z-]+)", (ROOT / document).read_text(), re.MULTILINE))

    assert named <= targets


@pytest.mark.parametrize("document", PAGES)
def test_every_page_that_a_document_links_to_exists(document: str) -> None:
    page = ROOT / document
    linked = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())

    assert [target for target in linked if not (page.parent / target).exists()] == []


def test_the_index_of_the_documentation_names_every_page_and_every_command() -> None:
    index = (ROOT / "docs/README.md").read_text()
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    commands = set(get_command(app).list_commands(None))  # type: ignore[attr-defined,arg-type]

    assert {page for page in pages if f"]({page})" not in index} == set()
    assert {command for command in commands if f"`ottla {command}" not in index} == set()
