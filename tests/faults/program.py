"""Running a program of ours within another one: what `python -m MODULE` would run, as a function."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import cast


def main_of(module: str) -> Callable[[], int]:
    """The `main` of a module, or of a package's `__main__`."""
    found = find_spec(module)
    assert found is not None, f"there is no module {module}"
    is_package = found.submodule_search_locations is not None
    return cast("Callable[[], int]", import_module(f"{module}.__main__" if is_package else module).main)
