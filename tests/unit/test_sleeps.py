"""Tests wait for conditions; where one sleeps all the same, the line or the one above it says what for."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
SLEEPS = {"time.sleep", "asyncio.sleep"}


def sleeps_without_reason(source: str) -> Iterator[int]:
    """The lines that sleep for longer than a turn of the event loop without a comment."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in SLEEPS and ast.unparse(node.args[0]) != "0":
            beside, before = lines[node.lineno - 1 : node.end_lineno], lines[node.lineno - 2]
            if not any("  # " in line for line in beside) and not re.match(r" *# ", before):
                yield node.lineno


def test_every_sleep_has_its_reason_beside_it() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in TESTS.rglob("*.py")
        for line in sleeps_without_reason(path.read_text())
    ]
    assert not found


def test_a_sleep_without_a_reason_is_found() -> None:
    source = """async def wait(delay_s):
    time.sleep(1)
    time.sleep(1)  # between two looks
    # how slow the disk is
    await asyncio.sleep(delay_s)
    await asyncio.sleep(0)
"""
    assert [*sleeps_without_reason(source)] == [2]
