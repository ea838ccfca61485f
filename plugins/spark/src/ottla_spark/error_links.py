"""Takes the texts of Spark's errors apart: what is one message for Spark is a chain of errors for a reader.

A failure passes through many hands: a Python worker's traceback becomes the message of a Java exception, that one a
part of "Job aborted due to stage failure: …", and this the reason why a query terminated. `links` undoes it.
"""

import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

TRACEBACK = "Traceback (most recent call last):\n"
OWN_PACKAGES = "ottla_"
JAVA_ERROR_IN_PYTHON = "py4j.protocol.Py4JJavaError"
FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)
LIBRARIES = re.compile(r"pyspark\.zip/|/site-packages/|/lib/python3[^/]*/|^pyarrow/|^pandas/|^<")
PYTHON_ERROR = re.compile(r"(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<text>.*))?", re.DOTALL)

STREAMING_QUERY_DUMP = re.compile(r"\n=== Streaming Query ===\n.*?(?=\n\tat |\nCaused by: |\Z)", re.DOTALL)
TERMINATED = re.compile(r"(?:\[STREAM_FAILED\] )?Query .{0,200}?terminated with exception: (?P<text>.*)", re.DOTALL)
LOST_TASK = re.compile(
    r"Job aborted due to stage failure: .*?Lost task [^()]*\(TID \d+\) \([^()]*\): (?P<text>.*)", re.DOTALL
)
CALLING = re.compile(r"An error occurred while calling [^\n]*?\.?\n?: (?=[a-z]+\.)")
JAVA_ERROR = re.compile(r"(?P<kind>(?:[a-z_][\w$]*\.)+[A-Z][\w$]*)(?:: (?P<text>.*))?", re.DOTALL)
JAVA_FRAMES = re.compile(
    r"\n\tat [\w.$/<>]+(?=[(\n]|\Z)[^\n]*|\n\s*\.\.\. \d+ more|\n\s*Suppressed: [^\n]*|\nDriver stacktrace:"
)
CAUSED_BY = re.compile(r"\n\s*Caused by: ")
CONDITION = re.compile(r"\s*\[(?P<condition>[A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] ?")
SQLSTATE = re.compile(r"\s*SQLSTATE: (?P<state>[0-9A-Z]{5})\b")
SQLSTATES_AT_END = re.compile(r"(?:\s*SQLSTATE: [0-9A-Z]{5})+\s*$")


class ErrorNames(NamedTuple):
    """What Spark calls an error: its condition and SQLSTATE, as `getCondition` and `getSqlState` return them."""

    condition: str = ""
    sql_state: str = ""


NO_NAMES = ErrorNames()


@dataclass(frozen=True, slots=True)
class Link:
    """One error of a chain.

    Attributes:
        kind: its class with its module, such as ``java.io.IOException`` or ``ValueError``.
        text: its message.
        place: for an error in the user's Python code, where that is: ``delays.py, line 12, in cleaned``.
        is_python: whether Python code raised it.
        is_wrapper: whether it only says that the next one happened.
        names: what Spark itself calls it; empty where nothing is left of the exception but its text.
    """

    kind: str
    text: str
    place: str = ""
    is_python: bool = False
    is_wrapper: bool = False
    names: ErrorNames = NO_NAMES

    @property
    def condition(self) -> str:
        """Spark's name for what went wrong, such as ``DIVIDE_BY_ZERO``; empty if it has none."""
        if self.names.condition:
            return self.names.condition
        found = CONDITION.match(self.text)
        return found["condition"] if found else ""

    @property
    def sql_state(self) -> str:
        """The five characters of its SQLSTATE; empty if it has none."""
        if self.names.sql_state:
            return self.names.sql_state
        found = SQLSTATE.search(self.text)
        return found["state"] if found else ""

    @property
    def is_ours(self) -> bool:
        """Whether its message was written by Ottla, for people."""
        return self.kind.startswith(OWN_PACKAGES)


def links(kind: str, text: str, names: ErrorNames = NO_NAMES) -> Iterator[Link]:
    """Yield the errors that one exception's class, message and names stand for, outermost first."""
    found = _links(kind, text)
    yield replace(next(found), names=names)
    yield from found


def _links(kind: str, text: str) -> Iterator[Link]:
    text = STREAMING_QUERY_DUMP.sub("", text)
    if TRACEBACK in text:
        before, _, traceback = text.partition(TRACEBACK)
        yield Link(kind, before.strip(), is_wrapper=True)
        yield from _of_traceback(TRACEBACK + traceback)
    elif JAVA_FRAMES.search(text) or CAUSED_BY.search(text):
        yield from _of_stack(kind, text)
    elif found := TERMINATED.match(text) or LOST_TASK.match(text):
        yield Link(kind, text.removesuffix(found["text"]).strip(), is_wrapper=True)
        yield from _of_java(found["text"])
    else:
        yield Link(kind, text.strip(), is_python=is_builtin_error(kind))


def _of_traceback(text: str) -> Iterator[Link]:
    """Yield the error at the end of a traceback; of several that led to each other the last one that is Ottla's."""
    found = [_raised(block) for block in text.split(TRACEBACK)[1:]]
    raised = next((link for link in reversed(found) if link.is_ours), found[-1])
    if raised.kind == JAVA_ERROR_IN_PYTHON:
        yield from _of_java(CALLING.sub("", raised.text))
    else:
        yield raised


def _raised(block: str) -> Link:
    lines = block.rstrip().split("\n")
    first = next((number for number, line in enumerate(lines) if line and not line.startswith(" ")), len(lines) - 1)
    said = "\n".join(lines[first:]).partition("\n\nDuring handling of the above")[0]
    said = said.partition("\n\nThe above exception was the direct")[0]
    if not said.startswith(JAVA_ERROR_IN_PYTHON):
        said = JAVA_FRAMES.split(said, maxsplit=1)[0]
    found = PYTHON_ERROR.fullmatch(SQLSTATES_AT_END.sub("", said))
    kind, text = (found["kind"], found["text"] or "") if found else ("", said)
    return Link(kind, text.strip(), _place("\n".join(lines[:first])), is_python=True)


def _place(frames: str) -> str:
    """Return where in the user's own code an error was raised: the last frame that is no library's."""
    own = [found for found in FRAME.finditer(frames) if not LIBRARIES.search(found["file"])]
    if not own:
        return ""
    return f"{own[-1]['file'].rpartition('/')[2]}, line {own[-1]['line']}, in {own[-1]['function']}"


def _of_stack(kind: str, text: str) -> Iterator[Link]:
    """Yield the errors of a Java stack trace; `kind` is that of the first."""
    starts = [0, *(found.end() for found in CAUSED_BY.finditer(text)), len(text)]
    for number, (start, end) in enumerate(pairwise(starts)):
        said = JAVA_FRAMES.split(CAUSED_BY.split(text[start:end])[0], maxsplit=1)[0]
        yield from links(kind, said) if number == 0 else _of_java(said)


def _of_java(said: str) -> Iterator[Link]:
    found = JAVA_ERROR.match(said)
    if found is None:
        yield from links("", said)
    else:
        yield from links(found["kind"], found["text"] or "")


def simple_name(kind: str) -> str:
    """Return a class's name without its module or package."""
    return kind.rpartition(".")[2]


def builtin_error(kind: str) -> type[BaseException] | None:
    """Return Python's own exception of this name, or the one that PySpark's of this name is a kind of."""
    found = getattr(builtins, simple_name(kind).removeprefix("PySpark"), None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def is_builtin_error(kind: str) -> bool:
    """Return whether this is the name of one of Python's own exceptions."""
    return "." not in kind and builtin_error(kind) is not None
