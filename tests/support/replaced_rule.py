"""Putting something wrong in the place of a rule of the product, only where the product goes by it.

A rule that has moved leaves a name behind that nobody calls, or none at all. Whoever set it then would break nothing,
and what is meant to notice the breach would notice nothing, without anybody hearing of it. So before a name is
replaced it is seen that it is there, that code of ours reads it where it is replaced, and that what comes in its
place can be called in the same way: a TypeError would be noticed as well, but is not the breach that was meant.
Who reads it is seen among the modules that are loaded; for rules that are broken while a service starts, a unit test
sees that with all of them loaded.
"""

import inspect
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dis import get_instructions
from functools import cache
from importlib.abc import InspectLoader
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final
from unittest.mock import patch

READERS: Final = ("ottla_", "tests.simulation.", "tests.support.broker.linked_partition_model")
"""Beginnings of the names of modules whose code counts: ours, and what drives its rules in place of a service."""

_BREAKERS: Final = frozenset({"replace_rule", "rule_replaced"})
"""Who has one of these reads the names of rules only to set them aside."""

_LOOKUPS: Final = frozenset({"LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"})


def replace_rule(owner: Any, name: str, wrong: Any) -> None:
    """Replace an attribute of a module or a class for good; who reads it need not be loaded yet.

    Raises:
        AssertionError: there is no such attribute, or what is to take its place is not called as it is.
    """
    _check_fits(owner, name, wrong)
    setattr(owner, name, wrong)


def rule_replaced(owner: Any, name: str, wrong: Any) -> AbstractContextManager[Any]:
    """Replace an attribute of a module or a class for as long as the context is entered.

    Raises:
        AssertionError: nothing would be broken by it; when the context is made.
    """
    check_is_rule(owner, name, wrong)
    return patch.object(owner, name, wrong)


def check_is_rule(owner: Any, name: str, wrong: Any) -> None:
    """See that something wrong in the place of an attribute would be used instead of it.

    Raises:
        AssertionError: there is no such attribute, no loaded code reads it there, or the one that is to take its
            place is not called as it is.
    """
    _check_fits(owner, name, wrong)
    where = f"{owner.__name__}.{name}"
    assert any(_reads(code, name) for code in _readers(owner)), f"nothing reads {where}: has it moved?"


def _check_fits(owner: Any, name: str, wrong: Any) -> None:
    where = f"{owner.__name__}.{name}"
    missing = object()
    rule = inspect.getattr_static(owner, name, missing)
    assert rule is not missing, f"there is no {where} to break: has it moved?"
    if isinstance(wrong, FunctionType | property):
        _check_kind(where, rule, wrong)
    if isinstance(rule, FunctionType) and isinstance(wrong, FunctionType):
        _check_arguments(where, rule, wrong)


def _check_kind(where: str, rule: Any, wrong: FunctionType | property) -> None:
    assert isinstance(rule, property) == isinstance(wrong, property), f"{where} and what replaces it differ in kind"
    waits = inspect.iscoroutinefunction(rule)
    assert waits == inspect.iscoroutinefunction(wrong), f"{where} and what replaces it differ in being awaited"


def _check_arguments(where: str, rule: FunctionType, wrong: FunctionType) -> None:
    """See that a function takes what another one is called with: all by position that can be, the rest by name."""
    parameters = inspect.signature(rule).parameters.values()
    positional = [each for each in parameters if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}]
    named = {each.name: each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    try:
        inspect.signature(wrong).bind(*positional, **named)
    except TypeError as error:
        raise AssertionError(f"what replaces {where} is not called as it is: {error}") from error


def _readers(owner: Any) -> Iterator[CodeType]:
    """Yield the code by which an attribute may be read: for a module its own, and where the module has a name."""
    for module_name, module in tuple(sys.modules.items()):
        if not module_name.startswith(READERS) or vars(module).keys() & _BREAKERS:
            continue
        if not isinstance(owner, ModuleType) or module is owner or any(it is owner for it in vars(module).values()):
            yield from _code_of(module_name)


@cache
def _code_of(module_name: str) -> tuple[CodeType, ...]:
    """Return all code of a module."""
    module = sys.modules[module_name]
    loader = module.__spec__.loader if module.__spec__ is not None else None
    if isinstance(loader, InspectLoader):
        code = loader.get_code(module_name)
    else:  # pytest's, which has rewritten the assertions
        code = compile(inspect.getsource(module), module_name, "exec")
    return tuple(_with_inner(code)) if code is not None else ()


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)


def _reads(code: CodeType, name: str) -> bool:
    """Return whether code looks a name up when it is run; one that is read while a module loads is read too early."""
    return name in code.co_names and any(
        instruction.opname in _LOOKUPS and instruction.argval == name for instruction in get_instructions(code)
    )
