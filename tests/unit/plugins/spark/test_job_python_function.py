"""A user's function is found in files, and must return what the outputs need."""

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla_sdk import FatalError
from ottla_spark import SparkPipeline
from ottla_spark.job.plan import PythonFunction
from ottla_spark.job.python_function import FunctionNotFound, load_function, outputs_of


@pytest.fixture(autouse=True)
def own_modules() -> Iterator[None]:
    """Modules and paths are as before afterwards."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in sys.modules.keys() - modules:
        del sys.modules[name]


def function(name: str, *files: Path) -> PythonFunction:
    module, _, attribute = name.partition(":")
    return PythonFunction(module=module, name=attribute, files=tuple(map(str, files)))


def test_a_function_of_a_file_that_imports_another_from_an_archive(tmp_path: Path) -> None:
    (tmp_path / "ottla_test_job.py").write_text(
        "from ottla_test_words import WORD\ndef run(spark, tables): return WORD\n"
    )
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
        archive.writestr("ottla_test_words.py", "WORD = 'found'\n")
    found = load_function(function("ottla_test_job:run", tmp_path / "ottla_test_job.py", tmp_path / "more.zip"))
    assert found(None, {}) == "found"


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("run = 1", "ottla_test_bad:run", "has no function run"),
        ("def go(): ...", "ottla_test_bad:run", "has no function run"),
        ("import no_such_module", "ottla_test_bad:run", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("1 / 0", "ottla_test_bad:run", "cannot be imported: ZeroDivisionError"),
        ("", "ottla_test_other:run", "No module named 'ottla_test_other'"),
    ],
)
def test_what_is_wrong_with_a_function_is_said(tmp_path: Path, text: str, name: str, message: str) -> None:
    (tmp_path / "ottla_test_bad.py").write_text(text)
    with pytest.raises(FunctionNotFound, match=message):
        load_function(function(name, tmp_path / "ottla_test_bad.py"))


def test_a_file_that_is_not_there_or_no_python_is_refused(tmp_path: Path) -> None:
    (tmp_path / "job.txt").write_text("")
    for name in ("job.txt", "missing.py", "missing.zip"):
        with pytest.raises(FunctionNotFound, match=name):
            load_function(function("job:run", tmp_path / name))


def test_the_connectors_check_names_the_setting(tmp_path: Path) -> None:
    connector = SparkPipeline()
    connector.configure(
        {
            "checkpoint.location": str(tmp_path / "state"),
            "tables": "a",
            "outputs": "b",
            "outputs.b.topic": "b",
            "python.function": "ottla_test_missing:run",
        }
    )
    found = {each.key: each.message for each in connector.check()}
    assert "No module named 'ottla_test_missing'" in found["python.function"]


class Frame:
    """Stands for a DataFrame, of which nothing is asked here."""


ONE = Frame()


@pytest.mark.parametrize(
    ("returned", "outputs", "made"),
    [
        (ONE, ["a"], {"a": ONE}),
        ({"a": ONE}, ["a"], {"a": ONE}),
        ({"a": ONE, "b": ONE}, ["a", "b"], {"a": ONE, "b": ONE}),
    ],
)
def test_what_a_function_may_return(returned: Any, outputs: list[str], made: dict[str, Frame]) -> None:
    assert outputs_of(returned, outputs, Frame) == made


@pytest.mark.parametrize(
    ("returned", "outputs", "message"),
    [
        (None, ["a"], "must return a DataFrame, not a NoneType"),
        (ONE, ["a", "b"], "must return a dict of DataFrames with the keys a, b, not a Frame"),
        ({"a": ONE}, ["a", "b"], "it has returned a"),
        ({"a": ONE, "b": 1}, ["a", "b"], "b is a int"),
    ],
)
def test_what_a_function_may_not_return(returned: Any, outputs: list[str], message: str) -> None:
    with pytest.raises(FatalError, match=message):
        outputs_of(returned, outputs, Frame)
