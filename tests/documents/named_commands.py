"""Commands that documents name, in blocks, in text and in tables, against the tree of commands.

Nothing is carried out: of a whole command all arguments are parsed, as the command does before it begins. What
stands in a sentence may lack arguments and have placeholders; there the names and the options are looked up.
"""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any

import typer
from typer._click.exceptions import ClickException
from typer.main import get_command

from ottla.command_tree import app
from tests.documents.documents import FENCE, Command, steps

Path = tuple[str, ...]
"""The names that lead to a command, such as ``("connect", "offsets", "show")``."""

PUNCTUATION = "|&;<>()"
OF_SERVICES = {"--config", "--set", "--help", "--standalone"}
"""The options of programs such as `ottla-broker`; the last is that of `ottla-connect`."""
OF_OTHERS = {
    *("--auto-compaction-mode", "--auto-compaction-retention", "--quota-backend-bytes", "--heartbeat-interval"),
    "--max-request-bytes",
    *("--election-timeout", "--listen-metrics-urls", "--client-cert-auth", "--bootstrap-server"),
}
"""Options of etcd and of Kafka's tools that documents name on their own."""
_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][A-Za-z-]+")
_ALIAS = re.compile(r"(?<![\w'-])-[A-Za-z](?![\w-])")


@cache
def tree() -> dict[Path, Any]:
    """All commands and groups by their names."""
    found: dict[Path, Any] = {}

    def walk(path: Path, command: Any) -> None:
        found[path] = command
        if is_group(command):
            for name in command.list_commands(None):
                walk((*path, name), command.get_command(None, name))

    walk((), get_command(app))
    return found


def is_group(command: Any) -> bool:
    """Whether it has commands below it."""
    return hasattr(command, "list_commands")


def options(path: Path) -> set[str]:
    """The options of a command, and those that all commands have."""
    own = {name for each in tree()[path].params for name in (*each.opts, *each.secondary_opts)}
    return {*own, "--help", "-h", "--profile"}


def typed_lines(document: str) -> Iterator[list[str]]:
    """The arguments of each `ottla` that a block of commands has, of pipelines each part."""
    for step in steps(document):
        if isinstance(step, Command):
            yield from calls(step.line)


def calls(line: str) -> Iterator[list[str]]:
    """The arguments of each `ottla` in a line of a shell."""
    words = shlex.shlex(line, posix=True, punctuation_chars=PUNCTUATION)
    words.whitespace_split = True
    call: list[str] = []
    for word in (*words, "|"):
        if word and set(word) <= set(PUNCTUATION):
            if call and call[0].rpartition("/")[2] == "ottla":
                yield call[1:]
            call = []
        elif call or not re.fullmatch(r"\w+=.*", word):
            call.append(word)


def refusal(arguments: list[str]) -> str | None:
    """What a command says of its arguments before it begins; None if it takes them."""
    command, name, parent = tree()[()], "ottla", None
    try:
        while True:
            parent = command.make_context(name, [*arguments], parent=parent)
            if not is_group(command):
                return None
            name, command, arguments = command.resolve_command(parent, [*parent._protected_args, *parent.args])
    except typer.Exit:  # of --help and the like
        return None
    except ClickException as error:
        return error.format_message()


def unknown_in_text(text: str) -> list[str]:
    """Commands and options in the sentences and tables of a document that there are not."""
    wrong: list[str] = []
    group: Path | None = None
    for line in _outside_blocks(text):
        codes = _CODE.findall(line)
        group = _group_of_table(line, codes, group)
        if line.startswith("| `") and group is not None:
            wrong += _unknown_in_row(group, codes)
            continue
        wrong += _unknown_in_index(codes) if line.startswith("| `ottla ") else _unknown_in_sentence(codes)
    return wrong


def named_in_tables(text: str) -> set[Path]:
    """The commands that begin rows of tables: ``| `ottla topic create`, `list` |``."""
    found: set[Path] = set()
    for line in text.splitlines():
        if not line.startswith("| `ottla "):
            continue
        former: Path = ()
        for code in _CODE.findall(line.split(" | ")[0]):
            words = code.split()
            former = _looked_up((), words[1:])[0] if words[0] == "ottla" else (*former[:-1], words[0])
            found.add(former)
    return found


def _outside_blocks(text: str) -> Iterator[str]:
    is_fenced = False
    for line in text.splitlines():
        if line.startswith(FENCE):
            is_fenced = not is_fenced
        elif not is_fenced and not line.startswith("    "):
            yield line


def _group_of_table(line: str, codes: list[str], current: Path | None) -> Path | None:
    """The group whose commands the rows of a table are, which the table's head names."""
    if line.startswith("| of ") and codes and codes[0].startswith("ottla "):
        return tuple(codes[0].split()[1:])
    return current if line.startswith("|") else None


def _unknown_in_sentence(codes: list[str]) -> list[str]:
    wrong: list[str] = []
    for code in codes:
        wrong += _looked_up((), code.split()[1:])[1] if code.startswith("ottla ") else _unknown_options(code)
    return wrong


def _unknown_in_index(codes: list[str]) -> list[str]:
    """The same of a row such as ``| `ottla topic create`, `list` | with `--partitions` |``."""
    wrong: list[str] = []
    paths: list[Path] = []
    for code in codes:
        if code.startswith("-"):
            known = set().union(*(options(path) for path in paths))
            wrong += [f"{code} of {paths}" for option in _options_in(code) if option not in known]
            continue
        words = code.split()
        path, problems = _looked_up((), words[1:]) if words[0] == "ottla" else _looked_up(paths[-1][:-1], words)
        paths.append(path)
        wrong += problems
    return wrong


def _unknown_in_row(group: Path, codes: list[str]) -> list[str]:
    wrong: list[str] = []
    paths: list[Path] = []
    for code in codes:
        if re.match(r"[a-z]", code) and (*group, code.split()[0]) in tree():
            path, problems = _looked_up(group, code.split())
            paths.append(path)
            wrong += problems
        else:
            known = set().union(*(options(path) for path in paths))
            wrong += [f"{code} of {paths}" for option in _options_in(code) if option not in known]
    return wrong if paths else [f"no command of {' '.join(group)} in: {codes}"]


def _looked_up(group: Path, words: list[str]) -> tuple[Path, list[str]]:
    """The command that some words begin with, and what it does not have of the others."""
    path = group
    for position, word in enumerate(words):
        if not is_group(tree()[path]) or word.startswith(("-", "…")) or word.isupper():
            rest = " ".join(words[position:])
            break
        if (*path, word) not in tree():
            return path, [f"ottla {' '.join((*path, word))}"]
        path = (*path, word)
    else:
        rest = ""
    return path, [f"ottla {' '.join(path)} {each}" for each in _options_in(rest) if each not in options(path)]


def _unknown_options(code: str) -> list[str]:
    """The options in a piece such as `--wait` or `link status --wait` that no such command has."""
    named = _OPTION.findall(code)
    if not named:
        return []
    words = tuple(code.split()[: [word.startswith("-") for word in code.split()].index(True)])
    paths = [path for path in tree() if not words or path[-len(words) :] == words]
    if not paths:
        return []  # another program's
    known = set().union(*(options(path) for path in paths)) | (set() if words else OF_SERVICES)
    return [f"{code}: {option}" for option in named if option not in known | OF_OTHERS]


def _options_in(text: str) -> list[str]:
    without_quoted = re.sub(r"'[^']*'", "", text)
    return [*_OPTION.findall(without_quoted), *_ALIAS.findall(without_quoted)]
