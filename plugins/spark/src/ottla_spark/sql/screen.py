"""What is written where: results to standard output, everything else to standard error."""

import sys
from contextlib import suppress

from ottla_spark.sql.sql_errors import ReaderGone


def write_out(text: str) -> None:
    """Write a result, at once.

    Raises:
        ReaderGone: nobody reads it.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderGone from None


def note(text: str) -> None:
    """Tell the person something that is no result; nobody may listen (`2>&1 | head`)."""
    with suppress(BrokenPipeError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
