"""The standard streams of the process, wherever they lead and however it was started.

Python takes a stream that is not ready, as one is that another process has made non-blocking, for the end of the
input, and for an output that failed. Without a buffer (PYTHONUNBUFFERED) it hands over each piece once and forgets
what the system did not take: a pipe takes a part where a signal interrupts the writer, as when it is stopped and goes
on. A descriptor that is closed (`>&-`) is given to the next socket. So each command begins with streams of its own:
they wait until they are ready, have a buffer, and say what was wrong.
"""

import os
import sys
from contextlib import suppress
from io import BufferedReader, BufferedWriter, FileIO, RawIOBase, TextIOWrapper
from select import select
from typing import Any, TextIO

from ottla_operations.errors import OperationError


class OutputFailed(OperationError):
    """What was printed could not be written, and somebody still wanted it."""


class _Input(FileIO):
    """An input that waits for data, though it is non-blocking: to Python, to have none now is to have ended."""

    def readinto(self, buffer: Any, /) -> int:
        count: int | None
        try:
            while (count := super().readinto(buffer)) is None:
                select([self], [], [])
        except OSError as error:
            raise OperationError(f"cannot read standard input: {error.strerror}") from None
        return count

    def read(self, size: int | None = -1, /) -> bytes:
        return RawIOBase.read(self, -1 if size is None else size) or b""

    def readall(self) -> bytes:
        return RawIOBase.readall(self) or b""


class _Output(FileIO):
    """An output that waits for room, though it is non-blocking."""

    def write(self, data: Any, /) -> int:
        count: int | None
        while (count := super().write(data)) is None:
            select([], [self], [])
        return count


class _Results(_Output):
    """Standard output."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputFailed(f"cannot write to standard output: {error.strerror}") from None


class _Messages(_Output):
    """Standard error, which may be lost: what a command does and its exit code do not depend on it."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def take_over_streams() -> None:
    """Replace the standard streams for as long as the process lasts."""
    # Opened the wrong way round, so that who needs an input or an output that is not there hears of it.
    _open_if_closed(0, os.O_WRONLY)
    _open_if_closed(1, os.O_RDONLY)
    _open_if_closed(2, os.O_WRONLY)
    sys.stdin = _text(sys.stdin, BufferedReader(_Input(0, "rb", closefd=False)))
    sys.stdout = _text(sys.stdout, BufferedWriter(_Results(1, "wb", closefd=False)))
    sys.stderr = _text(sys.stderr, BufferedWriter(_Messages(2, "wb", closefd=False)))


def discard_output() -> None:
    """Forget what is still to be written: at exit, Python would try once more, fail again and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with suppress(OSError, OutputFailed):
        sys.stdout.flush()


def _open_if_closed(descriptor: int, flags: int) -> None:
    try:
        os.fstat(descriptor)
    except OSError:
        os.set_inheritable(os.open(os.devnull, flags), True)  # the lowest that is free, as those below are open


def _text(former: TextIO | None, stream: BufferedReader | BufferedWriter) -> TextIOWrapper:
    """Return a stream of text in the encoding of the one before, with backslashes for what that does not have."""
    if not isinstance(former, TextIOWrapper):
        return TextIOWrapper(stream, "utf-8", "backslashreplace", line_buffering=True)
    is_unbuffered = isinstance(former.buffer, RawIOBase)
    errors = "backslashreplace" if former.errors == "strict" else former.errors
    return TextIOWrapper(stream, former.encoding, errors, line_buffering=former.line_buffering or is_unbuffered)
