"""Landlock: a thread and all that it starts from then on may open certain files and directories, and no others.

The kernel looks at each opening, by what is opened in the end: neither links nor renamed directories nor libraries of
other languages are a way round, and there is no moment between a check and an opening. What is open already stays.

Source: https://docs.kernel.org/userspace-api/landlock.html; the numbers are those of `linux/landlock.h`.
"""

import ctypes
import os
import stat
import sys
from collections.abc import Iterable, Mapping
from enum import IntFlag
from pathlib import Path
from typing import Final

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION: Final = 1
_PATH_BENEATH: Final = 1
_NO_NEW_PRIVILEGES: Final = 38
VERSION_MIN: Final = 2
"""Of the kernel's interface: before, no file could be renamed into another directory."""
TRUNCATE_VERSION: Final = 3


class Right(IntFlag):
    """What may be done with files."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14


READ: Final = Right.READ_FILE | Right.READ_DIR
WRITE: Final = (
    READ
    | Right.WRITE_FILE
    | Right.TRUNCATE
    | Right.REMOVE_DIR
    | Right.REMOVE_FILE
    | Right.MAKE_DIR
    | Right.MAKE_REG
    | Right.MAKE_SOCK
    | Right.MAKE_FIFO
    | Right.REFER
)
"""All but devices, which need other rights as well, and symbolic links, which would lead others elsewhere."""
_OF_A_FILE: Final = Right.EXECUTE | Right.WRITE_FILE | Right.READ_FILE | Right.TRUNCATE
_ALL: Final = Right(sum(Right))


class _RulesetAttributes(ctypes.Structure):
    _fields_ = [("handled_access_fs", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


def is_available() -> bool:
    """Return whether this kernel can do it."""
    return sys.platform == "linux" and _version() >= VERSION_MIN


def restrict(readable: Iterable[Path], writable: Iterable[Path], *, may_execute: bool) -> None:
    """Restrict this thread, and those that it starts, for ever.

    Args:
        readable: files and directories that may be read, with all below them; those that are missing are passed over.
        writable: those in which everything may be done.
        may_execute: whether programs may be started, wherever they are; otherwise none may.

    Raises:
        OSError: the kernel refuses.
    """
    handled = _ALL if _version() >= TRUNCATE_VERSION else _ALL & ~Right.TRUNCATE
    _enforce(handled & ~Right.EXECUTE if may_execute else handled, {READ: readable, WRITE: writable})


def forbid_programs() -> None:
    """Have this thread, and those that it starts, start no programs, for ever; files are as before.

    Raises:
        OSError: the kernel refuses.
    """
    _enforce(Right.EXECUTE, {})


def _enforce(handled: Right, rules: Mapping[Right, Iterable[Path]]) -> None:
    """Take the rights that are handled from this thread, but for those that rules give back for paths."""
    attributes = _RulesetAttributes(handled)
    ruleset = _call(_CREATE_RULESET, ctypes.byref(attributes), ctypes.sizeof(attributes), 0)
    try:
        for rights, paths in rules.items():
            for path in paths:
                _allow(ruleset, path, rights & handled)
        if ctypes.CDLL(None, use_errno=True).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "no_new_privs is refused")
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: Path, rights: Right) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_A_FILE
        rule = _PathBeneath(rights, descriptor)
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(descriptor)


def _version() -> int:
    try:
        return _call(_CREATE_RULESET, None, 0, _ASK_VERSION)
    except OSError:
        return 0


def _call(number: int, *arguments: object) -> int:
    """Make a system call of three arguments and more, for which there is no function in C's library.

    Raises:
        OSError: it has failed.
    """
    library = ctypes.CDLL(None, use_errno=True)
    done: int = library.syscall(ctypes.c_long(number), *arguments)
    if done < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return done
