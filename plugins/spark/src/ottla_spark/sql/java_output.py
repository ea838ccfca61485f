"""Keeps what Java and native libraries print off the screen.

They write to the file descriptor of standard error, and so does nobody else here: Python's `sys.stderr` gets a copy
of it, and the descriptor itself leads to a file. Its end is shown when Spark does not start.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

STANDARD_ERROR = 2
SHOWN_LINES_MAX = 5
SHOWN_BYTES_MAX = 8_192


class JavaOutput:
    """What was printed so far.

    Args:
        file: where it goes; None if it is on the screen.
    """

    def __init__(self, file: IO[bytes] | None) -> None:
        self._file = file

    def last_lines(self) -> str:
        """Return the end of it."""
        if self._file is None:
            return ""
        size = os.fstat(self._file.fileno()).st_size
        end = os.pread(self._file.fileno(), SHOWN_BYTES_MAX, max(0, size - SHOWN_BYTES_MAX))
        return "\n".join(end.decode(errors="replace").strip().splitlines()[-SHOWN_LINES_MAX:])


@contextmanager
def kept_off_screen() -> Iterator[JavaOutput]:
    """Redirect it while inside; `OTTLA_DEBUG=1` leaves it on the screen."""
    if os.environ.get("OTTLA_DEBUG"):
        yield JavaOutput(None)
        return
    sys.stderr.flush()
    former, copy = sys.stderr, os.dup(STANDARD_ERROR)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), STANDARD_ERROR)
        sys.stderr = os.fdopen(os.dup(copy), "w", buffering=1, encoding=former.encoding, errors=former.errors)
        try:
            yield JavaOutput(file)
        finally:
            sys.stderr.close()
            sys.stderr = former
            os.dup2(copy, STANDARD_ERROR)
            os.close(copy)
