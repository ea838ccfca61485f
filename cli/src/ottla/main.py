"""The entry point of `ottla`: the one place where errors become messages and exit codes.

Exit codes: 0 done, 1 could not be done (one line on standard error says why), 2 wrong usage, 130 interrupted.
A reader that goes away (`ottla consume … | head`) is no error. `OTTLA_DEBUG=1` shows the traceback of a bug.
"""

import os
import sys
from contextlib import suppress

from ottla.interrupts import Interrupts
from ottla.output import ReaderGone
from ottla.standard_streams import OutputFailed, discard_output, take_over_streams
from ottla_operations.errors import OperationError

EXIT_INTERRUPTED = 130

_interrupts = Interrupts()


def program() -> int:
    """Run the command line in a process of its own, without what libraries would import only because it is there."""
    from ottla_core.lean_imports import leave_out_extras  # noqa: PLC0415 - `main` runs in the tests' process as well

    leave_out_extras()
    _interrupts.take_over()
    take_over_streams()
    code = main()
    if (
        _interrupts.take_owed() and code == 0
    ):  # the command came to its end before the interrupt could be raised again
        code = EXIT_INTERRUPTED
    if code == EXIT_INTERRUPTED:
        # Clients of Kafka would wait at the end for what the person does not want to wait for.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, OutputFailed):
                stream.flush()
        os._exit(code)
    return code


def main() -> int:
    """Run the command line and return the process's exit code."""
    try:
        from ottla.command_tree import app  # noqa: PLC0415 - here, so that Ctrl-C during the import is quiet, too

        code = app(standalone_mode=False)
        return _flushed(code if isinstance(code, int) else 0)
    except SystemExit as ending:
        if isinstance(ending.__context__, BrokenPipeError):  # Typer ends the program with 1 then
            return _reader_gone()
        return _flushed(ending.code if isinstance(ending.code, int) else int(ending.code is not None))
    except OperationError as error:
        print(f"ottla: {error}", file=sys.stderr)
        if isinstance(error, OutputFailed):
            discard_output()
        return _flushed(error.exit_code)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except ReaderGone:
        return _reader_gone()
    except Exception as error:
        if _interrupts.count:
            return EXIT_INTERRUPTED  # confluent-kafka turns an interrupt inside its calls into a SystemError
        from ottla.usage import told_usage_problem  # noqa: PLC0415 - for errors only

        if (exit_code := told_usage_problem(error)) is not None:
            return exit_code
        if os.environ.get("OTTLA_DEBUG"):
            raise
        print(f"ottla: internal error: {type(error).__name__}: {error} (OTTLA_DEBUG=1 shows where)", file=sys.stderr)
        return 1


def _flushed(code: int) -> int:
    """Write what is still to be written, and return the exit code then."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    except OutputFailed as error:
        discard_output()
        print(f"ottla: {error}", file=sys.stderr)
        return code or error.exit_code
    return code


def _reader_gone() -> int:
    discard_output()
    return 0


if __name__ == "__main__":
    sys.exit(program())
