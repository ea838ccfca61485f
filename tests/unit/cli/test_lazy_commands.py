"""What each command imports, and that help tells of commands without importing them."""

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from ottla import plugin_commands
from ottla.command_tree import TREE, app
from ottla.lazy_commands import Command, Group
from ottla_operations.errors import OperationError, UsageProblem
from tests.support.free_ports import free_port

RUN_AND_SHOW = """
import atexit, json, sys
from ottla.main import program
sys.argv = ["ottla", *json.loads(sys.argv[1])]
program()
sys.stdout.flush()
print(json.dumps([name for name, module in sys.modules.items() if module]))
"""
HEAVY = {"asyncio", "confluent_kafka", "grpc", "httpx", "hypothesis", "kio", "rich", "structlog", "yaml"}


def below(group: Group) -> Iterator[Command]:
    for node in group.commands.values():
        if isinstance(node, Group):
            yield from below(node)
        else:
            yield node


def modules_after(*arguments: str) -> set[str]:
    """The modules that a run of the command has imported."""
    done = subprocess.run(
        [sys.executable, "-c", RUN_AND_SHOW, json.dumps(arguments)],
        check=True, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")},
    )  # fmt: skip
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("command", list(below(TREE)), ids=lambda command: command.function)
def test_a_summary_is_the_first_sentence_of_the_functions_docstring(command: Command) -> None:
    module, _, function = command.function.partition(":")
    text = inspect.getdoc(getattr(import_module(f"ottla.commands.{module}"), function)) or ""
    first_paragraph = " ".join(text.split("\n\n")[0].split())
    assert first_paragraph.startswith(command.summary)
    assert command.summary.endswith(".")


def test_the_summaries_of_our_plugins_commands_are_those_of_their_docstrings() -> None:
    for point in entry_points(group=plugin_commands.GROUP):
        function = getattr(point.load(), point.name)
        assert (inspect.getdoc(function) or "").startswith(plugin_commands.KNOWN[point.name][1])


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("tpic",), ("topic",), ("connect", "--help")])
def test_what_carries_out_no_command_imports_no_command(arguments: tuple[str, ...]) -> None:
    imported = modules_after(*arguments)
    assert not {name for name in imported if name.startswith(("ottla.commands", "ottla_spark"))}
    assert not imported & HEAVY


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (("up", "--help"), set()),
        (("up", "--set", "nonsense"), {"asyncio"}),
        (("status", "--dir", "/nowhere"), set()),
        (("down", "--dir", "/nowhere"), set()),
        (("topic", "create", "--help"), set()),
        (("consume", "--help"), set()),
        (("produce", "t", "--key-field", "k"), set()),
        (("log", "dump", "/nowhere"), set()),
        (("connect", "create", "/nowhere.yaml"), {"yaml"}),
        (("topic", "list", "-b", "{nobody}"), {"confluent_kafka", "asyncio"}),
        (("consume", "t", "-b", "{nobody}"), {"confluent_kafka", "asyncio"}),
        (("group", "list", "-b", "{nobody}"), {"confluent_kafka", "asyncio"}),
        (("cluster", "describe", "-b", "{nobody}"), {"kio", "asyncio"}),  # kio imports it
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_command_imports_what_it_needs_and_nothing_else(arguments: tuple[str, ...], needed: set[str]) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    imported = modules_after(*(each.format(nobody=nobody) for each in arguments))
    assert imported & HEAVY <= needed
    module = TREE.commands[arguments[0]]
    node = module.commands[arguments[1]] if isinstance(module, Group) else module
    assert isinstance(node, Command)
    own = f"ottla.commands.{node.function.partition(':')[0]}"
    others = {command.function.partition(":")[0] for command in below(TREE)}
    assert own in imported
    unused = {f"ottla.commands.{name}" for name in others} & imported - {own}
    assert unused <= {"ottla.commands.local_options", "ottla.commands.produce"}


def test_tls_and_logins_are_imported_where_they_are_used() -> None:
    imported = modules_after("cluster", "describe", "-b", f"127.0.0.1:{free_port()}")
    assert "ottla_core.client.blocking_connection" in imported
    assert not imported & {"ottla_core.client.tls", "ottla_core.client.sasl", "ottla_core.client.async_connection"}


def test_questions_import_neither_messages_that_are_not_sent_nor_what_moves_replicas() -> None:
    imported = modules_after("cluster", "describe", "-b", f"127.0.0.1:{free_port()}")
    assert "kio.schema.metadata.v13.request" in imported
    assert not imported & {"kio.schema.describe_log_dirs.v5.request", "kio.schema.describe_quorum.v2.request"}
    assert "ottla_operations.cluster.movement" not in imported


def test_looking_at_partitions_after_a_start_plans_no_cluster() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys, ottla.local.partition_health; print(*sys.modules)"],
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert not {"ottla.local.plan", "ottla.local.health", "urllib.request"} & set(done.stdout.split())


def test_the_package_says_which_program_it_installs() -> None:
    project = (Path(__file__).parents[3] / "cli" / "pyproject.toml").read_text()
    assert 'ottla = "ottla.main:program"' in project


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["group", "describe", "\udcff"], "GROUP has bytes that are no text"),
        (["topic", "create", "a", "b\udcff"], "has bytes that are no text"),
        (["consume", "t", "--grep", "\udcff"], "--grep has bytes that are no text"),
        (["produce", "t", "--header", "\udcff=a"], "--header has a name with bytes that are no text"),
    ],
    ids=["argument", "arguments", "option", "header"],
)
def test_arguments_that_are_no_text_are_wrong_usage(arguments: list[str], problem: str) -> None:
    with pytest.raises(UsageProblem, match=problem):
        app(arguments, standalone_mode=False)


def test_names_of_files_may_be_any_bytes() -> None:
    with pytest.raises(OperationError, match="cannot reach"):
        app(["produce", "t", "missing\udcff", "--bootstrap", "127.0.0.1:1"], standalone_mode=False)
