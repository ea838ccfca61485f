"""The command line explains itself, and says in one line what was wrong."""

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest
from typer.main import get_command

from ottla.command_tree import app
from ottla.main import main
from tests.documents.documents import Command, steps
from tests.support.free_ports import free_port

ROOT = Path(__file__).parents[3]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples/README.md"]


@cache
def tree():
    """The commands as click has them; making them of their functions takes a while."""
    return get_command(app)


def names_below(command) -> list[str]:
    """The commands of a group, plugins' too; none if it is no group."""
    return command.list_commands(None) if hasattr(command, "list_commands") else []


def below(command, name: str):
    return command.get_command(None, name)


def commands() -> Iterator[tuple[str, ...]]:
    def walk(command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        children = names_below(command)
        if not children:
            yield path
        for name in children:
            yield from walk(below(command, name), (*path, name))

    yield from walk(tree(), ())


def leaf(path: tuple[str, ...]):
    found = tree()
    for name in path:
        found = below(found, name)
    return found


@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_every_command_shows_examples_of_itself_and_explains_its_options(path):
    command = leaf(path)
    text = command.help or ""
    assert "Examples" in text
    assert f"ottla {' '.join(path)}" in text
    unexplained = [
        option.name for option in command.params if not getattr(option, "help", None) and option.name != "help"
    ]
    assert not unexplained


def commands_of(document: str) -> Iterator[str]:
    yield from (step.line for step in steps(document) if isinstance(step, Command))


def example_lines() -> Iterator[str]:
    for path in commands():
        yield from re.findall(r"^ +((?:.*\| )?ottla .+)$", leaf(path).help or "", flags=re.MULTILINE)
    for document in DOCUMENTS:
        for line in commands_of(document.read_text()):
            if ".venv/bin/ottla " in line and "$(" not in line:
                yield line


def programs_of(line: str) -> Iterator[list[str]]:
    """The words of each program in a line of the shell."""
    words = shlex.shlex(line, posix=True, punctuation_chars="|&")
    words.whitespace_split = True
    for is_between, program in groupby(words, key=lambda word: word in {"|", "&&"}):
        if not is_between:
            yield list(program)


def skip_own_options(command, arguments: list[str]) -> None:
    """Takes the options away that stand before the name of a command below this one; each has a value."""
    options = {name for option in command.params for name in option.opts}
    while arguments[0].startswith("-"):
        assert arguments.pop(0) in options
        arguments.pop(0)


@pytest.mark.parametrize("line", list(example_lines()))
def test_every_example_in_help_and_documents_is_understood(line):
    for program, *arguments in programs_of(re.split(r" {3,}", line)[0]):
        if not program.endswith("ottla"):
            continue
        command = tree()
        while names_below(command):
            skip_own_options(command, arguments)
            command = below(command, arguments.pop(0))
        with command.make_context("example", arguments) as context:
            assert context.params


@pytest.mark.parametrize("path", [path for path in commands() if path != ("consume",)], ids=" ".join)
def test_every_command_can_print_json(path):
    assert "--json" in [flag for option in leaf(path).params for flag in option.opts]


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def ottla(monkeypatch, capsys) -> Callable[..., Done]:
    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["ottla", *arguments])
        code = main()
        written = capsys.readouterr()
        return Done(code, written.out, written.err)

    return run


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "list"),
        ("topic", "create", "t"),
        ("config", "describe", "topic", "t"),
        ("produce", "t"),
        ("consume", "t"),
        ("consume", "t", "--group", "g"),
        ("group", "list"),
        ("group", "describe", "g"),
        ("group", "members", "g"),
        ("group", "reset-offsets", "g", "--all-topics", "--to-earliest"),
        ("group", "delete", "g"),
        ("bench", "latency"),
        ("cluster", "describe"),
        ("cluster", "rebalance"),
        ("cluster", "decommission", "3"),
        ("cluster", "elect-leaders"),
        ("cluster", "reassign", "--list"),
    ],
    ids=" ".join,
)
def test_a_cluster_that_is_not_there_is_one_line_and_exit_code_1(ottla, arguments):
    done = ottla(*arguments, "--bootstrap", f"127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("ottla: cannot reach 127.0.0.1:")
    assert done.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("no-such-command",),
        ("up", "--brokers", "0"),
        ("up", "--set", "nonsense"),
        ("produce", "t", "--acks", "1", "--idempotence"),
        ("produce", "t", "--key-field", "k"),
        ("consume", "t", "--offset", "somewhere"),
        ("consume", "t", "--offset", "latest"),
        ("consume", "t", "u"),
        ("consume", "t", "--instance-id", "i"),
        ("consume", "t", "--group", "g", "--partition", "0"),
        ("consume", "t", "--group", "g", "--offset", "17"),
        ("consume", "t", "--group", "g", "--group-protocol", "other"),
        ("group", "list", "--state", "asleep"),
        ("group", "reset-offsets", "g", "--all-topics"),
        ("group", "reset-offsets", "g", "--to-earliest"),
        ("group", "reset-offsets", "g", "--all-topics", "--to-earliest", "--to-latest"),
        ("group", "reset-offsets", "g", "--all-topics", "--topic", "t", "--to-earliest"),
        ("group", "reset-offsets", "g", "--topic", "t:x", "--to-earliest"),
        ("group", "reset-offsets", "g", "--all-topics", "--by-duration", "P1Y"),
        ("group", "reset-offsets", "g", "--all-topics", "--to-datetime", "yesterday"),
        ("up", "--etcd-nodes", "0"),
        ("up", "--etcd-nodes", "3", "--etcd", "http://127.0.0.1:1"),
        ("up", "--racks", "a,,c"),
        ("up", "--connect", "-1"),
        ("up", "--set", "connect:listeners=http://127.0.0.1:1"),
        ("connect", "list", "--url", "host:port"),
        ("connect", "create"),
        ("connect", "create", "f.yaml", "--config", "x"),
        ("connect", "restart", "c", "--task", "x"),
        ("connect", "offsets", "set", "c"),
        ("connect", "logs", "c", "--follow", "--json"),
        ("cluster", "rebalance", "--throttle", "0"),
        ("cluster", "decommission", "three"),
        ("cluster", "elect-leaders", "t:x"),
        ("cluster", "reassign"),
        ("cluster", "reassign", "--topic", "t", "--partition", "0"),
        ("cluster", "reassign", "--topic", "t", "--partition", "0", "--replicas", "1,x"),
        ("cluster", "reassign", "--topic", "t", "--partition", "0", "--replicas", "1,1"),
        ("cluster", "reassign", "plan.json", "--topic", "t"),
        ("cluster", "reassign", "--list", "--cancel"),
        ("cluster", "reassign", "--cancel", "--topic", "t"),
        ("topic", "create", "t", "--assignment", "1:x"),
        ("topic", "list", "--bootstrap", "host:port"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2_without_a_traceback(ottla, arguments):
    done = ottla(*arguments)
    assert done.returncode == 2
    assert done.stderr
    assert "Traceback" not in done.stderr


def test_status_and_down_say_when_there_is_no_cluster(ottla, tmp_path):
    for command in ("status", "down"):
        done = ottla(command, "--dir", str(tmp_path))
        assert done.returncode == 1
        assert done.stderr.startswith(f"ottla: there is no cluster in {tmp_path}")
