"""Tests are left out in one way only, so that CI can insist on all of them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import requirements

TESTS = Path(__file__).parents[1]
THE_WAY = TESTS / "support" / "requirements.py"
BARE = {"skip", "skipif", "importorskip", "SkipTest", "xfail"}


def bare_skips(source: str) -> Iterator[int]:
    """The lines that leave a test out by pytest's or unittest's own means."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Attribute)
            and node.attr in BARE
            and ast.unparse(node).startswith(("pytest", "unittest"))
        ):
            yield node.lineno


def test_every_skip_goes_through_the_one_file() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in TESTS.rglob("*.py")
        if path != THE_WAY
        for line in bare_skips(path.read_text())
    ]
    assert not found


def test_a_bare_skip_is_found() -> None:
    assert list(bare_skips('import pytest\npytest.skip("no")\npytestmark = pytest.mark.skipif(True)')) == [2, 3]


def test_what_is_missing_skips_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(requirements.REQUIRE_ALL, raising=False)
    monkeypatch.setitem(requirements.REQUIREMENTS, "a moon", lambda: "there is no moon")
    with pytest.raises(requirements.SKIPPED, match="there is no moon"):
        requirements.require("a moon")


def test_what_is_missing_fails_a_test_where_all_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(requirements.REQUIRE_ALL, "1")
    monkeypatch.setitem(requirements.REQUIREMENTS, "a moon", lambda: "there is no moon")
    with pytest.raises(requirements.FAILED, match="there is no moon"):
        requirements.require("a moon")


def test_what_is_there_lets_a_test_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(requirements.REQUIREMENTS, "a sun", lambda: None)
    requirements.require("a sun")
