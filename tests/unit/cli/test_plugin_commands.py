"""Commands that other distributions bring."""

import os
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
import typer
from typer.testing import CliRunner

from ottla import command_tree, plugin_commands
from ottla_operations.errors import OperationError


def register(app: typer.Typer) -> None:
    @app.command()
    def greet(name: str) -> None:
        """Greet somebody."""
        print(f"Hello {name}")


@pytest.fixture
def app(monkeypatch):
    found = {
        "greet": EntryPoint("greet", __name__, plugin_commands.GROUP),
        "broken": EntryPoint("broken", "no.such.module", plugin_commands.GROUP),
    }
    monkeypatch.setattr(plugin_commands, "_found", lambda: found)
    return command_tree.app


def run(app, *arguments):
    return CliRunner().invoke(app, arguments)


def test_a_plugins_command_runs_under_the_name_of_its_entry_point(app):
    assert run(app, "greet", "Ottla").output == "Hello Ottla\n"


def test_all_commands_are_listed_and_one_that_cannot_be_loaded_says_why(app):
    shown = run(app, "--help").output
    assert "Create, list, describe, alter and delete topics." in shown
    assert "Greet somebody." in shown
    assert "cannot be loaded: ModuleNotFoundError" in shown


def test_a_command_that_cannot_be_loaded_hurts_only_itself(app):
    assert run(app, "topic", "create", "--help").exit_code == 0
    failed = run(app, "broken")
    assert isinstance(failed.exception, OperationError)
    assert "the plugin of the command 'broken' cannot be loaded" in str(failed.exception)


def test_a_known_command_that_is_not_installed_says_what_to_install(app, monkeypatch):
    monkeypatch.setattr(plugin_commands, "_found", dict)
    assert "pip install ottla-spark" in str(run(app, "sql").exception)


def test_a_plugin_may_import_what_our_own_commands_leave_out():
    statement = """
from ottla_core.lean_imports import leave_out_extras
leave_out_extras()
from ottla import plugin_commands
assert plugin_commands.command("sql").name == "sql"
import ottla_spark.sql.results
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", statement], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
