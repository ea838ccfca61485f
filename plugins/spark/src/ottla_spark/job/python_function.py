"""A user's function: found in files that need not be installed, called with DataFrames.

Only this process's `sys.path` is changed here; the files go to the executors through Spark (`addPyFile`).
"""

import importlib
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ottla_sdk import FatalError
from ottla_sdk.file_policy import permitted_path
from ottla_spark.job.plan import PythonFunction

Function = Callable[[Any, dict[str, Any]], Any]


class FunctionNotFound(FatalError):
    """There is no such function, or its module cannot be imported."""


def load_function(function: PythonFunction) -> Function:
    """Return the function.

    Raises:
        FunctionNotFound: says why there is none.
    """
    for file in reversed(function.files):
        place = str(_import_path(permitted_path(file)))
        if place not in sys.path:
            sys.path.insert(0, place)
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(function.module)
    except Exception as error:  # a user's module may raise anything
        where = (
            f", which was looked for in {', '.join(function.files)} and what is installed" if function.files else ""
        )
        raise FunctionNotFound(
            f"the module {function.module} of python.function{where}, cannot be imported: {type(error).__name__}: "
            f"{error}"
        ) from error
    found = getattr(module, function.name, None)
    if not callable(found):
        raise FunctionNotFound(f"the module {function.module} ({module.__file__}) has no function {function.name}")
    return found  # type: ignore[no-any-return]


def outputs_of(returned: Any, outputs: Sequence[str], frame_type: type[Any]) -> dict[str, Any]:
    """Return what a function has returned by the outputs' names.

    Raises:
        FatalError: it is neither a DataFrame for the one output nor a dict with one for each.
    """
    if isinstance(returned, frame_type) and len(outputs) == 1:
        return {outputs[0]: returned}
    wanted = "a DataFrame" if len(outputs) == 1 else f"a dict of DataFrames with the keys {', '.join(outputs)}"
    if not isinstance(returned, dict):
        raise FatalError(f"python.function must return {wanted}, not a {type(returned).__name__}")
    if returned.keys() != set(outputs):
        raise FatalError(
            f"python.function must return {wanted}; it has returned {', '.join(map(str, returned)) or 'none'}"
        )
    for name, frame in returned.items():
        if not isinstance(frame, frame_type):
            raise FatalError(f"python.function must return {wanted}; {name} is a {type(frame).__name__}")
    return returned


def _import_path(file: Path) -> Path:
    """Return what has to be in `sys.path` for a file to be imported."""
    if file.suffix == ".py" and file.is_file():
        return file.parent
    if file.suffix in (".zip", ".egg", ".whl") and zipfile.is_zipfile(file):
        return file
    raise FunctionNotFound(f"{file} of python.files is not there, or is neither a .py file nor a .zip")
