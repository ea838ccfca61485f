"""The project that `ottla connect new-plugin` writes, and what it refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.connect.scaffold import TEMPLATE, BadPluginName, write_plugin_project
from ottla_operations.errors import OperationError

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize(
    "name",
    ["", "Weather", "9lives", "a_b", "a--b", "-a", "a-", "a.b", "../a", "wétter", "x" * 51, "class", "json", "yaml"],
)
def test_bad_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadPluginName, match="cannot be a plugin's name"):
        write_plugin_project(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "weather").mkdir()

    with pytest.raises(OperationError, match="exists already"):
        write_plugin_project("weather", tmp_path)
    assert not list((tmp_path / "weather").iterdir())


def test_every_template_is_written_and_filled(tmp_path: Path) -> None:
    written = write_plugin_project("acme-weather", tmp_path / "new")

    assert len(written) == len(list(TEMPLATE.rglob("*.template")))
    assert tmp_path / "new" / "acme-weather" / "src" / "acme_weather" / "plugin.py" in written
    for path in written:
        assert "{{" not in path.read_text()
        assert "template" not in path.name


@pytest.mark.slow
def test_the_project_installs_passes_its_tests_and_is_found(tmp_path: Path) -> None:
    write_plugin_project("acme-weather", tmp_path)
    project, site = tmp_path / "acme-weather", tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*install, "--disable-pip-version-check", "--target", site, project], check=True, timeout=120)
    environment = {**os.environ, "PYTHONPATH": str(site)}
    test = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "tests"]
    tested = subprocess.run(
        test, check=False, cwd=project, env=environment, capture_output=True, text=True, timeout=120
    )
    find = """
import importlib.metadata, json
print(json.dumps({each.name: each.value for each in importlib.metadata.entry_points(group="ottla.plugins")}))
"""
    found = subprocess.run([sys.executable, "-c", find], env=environment, capture_output=True, text=True, check=True)

    assert tested.returncode == 0, tested.stdout
    assert " passed" in tested.stdout
    assert json.loads(found.stdout)["acme-weather"] == "acme_weather.plugin"


@pytest.mark.slow
def test_the_project_passes_its_tests_in_an_environment_of_its_own_as_its_readme_says(tmp_path: Path) -> None:
    """Needs a package index, for what is not Ottla's."""
    write_plugin_project("acme-weather", tmp_path)
    project = tmp_path / "acme-weather"
    (tmp_path / "ottla").symlink_to(ROOT)
    block = (project / "README.md").read_text().partition("## Test it")[2].partition("## Run it")[0]
    commands = [line.strip() for line in block.splitlines() if line.startswith("    ")]
    assert len(commands) == 4
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    for command in commands:
        written = command.replace("python -m venv", f"{sys.executable} -m venv")
        done = subprocess.run(
            ["sh", "-c", written],
            cwd=project,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    assert " passed" in done.stdout
