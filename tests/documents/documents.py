"""What a document has its reader do: files to write and commands to type, in their order.

A file is a fenced block below a line that names it and ends with a colon ("Write `flights.yaml`:"). Commands are
indented blocks; each line is one, unless it ends with a backslash. Other blocks are for reading only.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
INDENT = "    "
FENCE = "```"
LIST_ITEMS = ("- ", "* ", "1. ")
"""What begins an item whose further lines are indented; a paragraph may begin in bold."""
_NAMED_FILE = re.compile(r"`([\w.-]+\.(?:yaml|jsonl?|properties|sql|py))`[^`]*:$")


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that the reader writes."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A line that the reader types."""

    line: str


def steps(document: str) -> list[WrittenFile | Command]:
    """All that a document's reader does."""
    found: list[WrittenFile | Command] = []
    for before, kind, lines in _blocks(document.splitlines()):
        if kind == "commands":
            text = "\n".join(line.removeprefix(INDENT) for line in lines).replace("\\\n", " ")
            found += [Command(re.sub(r" {2,}(?=\S)", " ", line)) for line in text.splitlines() if line]
        elif named := _NAMED_FILE.search(before):
            found.append(WrittenFile(named[1], "\n".join(lines) + "\n"))
    return found


def commands(page: Path) -> list[str]:
    """The lines that a page's reader types."""
    return [step.line for step in steps(page.read_text()) if isinstance(step, Command)]


def _blocks(lines: list[str]) -> Iterator[tuple[str, str, list[str]]]:
    """The last line of text before each block, the block's kind, and its lines."""
    before = ""
    rest = iter(lines)
    block: list[str] = []
    for line in rest:
        if line.startswith(FENCE):
            fenced = []
            for inside in rest:
                if inside.startswith(FENCE):
                    break
                fenced.append(inside)
            yield before, "fenced", fenced
        elif line.startswith(INDENT) and (block or not before.startswith(LIST_ITEMS)):
            block.append(line)
            continue
        elif line:
            before = line.strip()
        if block:
            yield before, "commands", block
            block = []
    if block:
        yield before, "commands", block
