"""The one error of the command line: a sentence for the person who typed the command."""


class CommandError(Exception):
    """A command cannot do what was asked; the message says what was wrong and what to do.

    Attributes:
        exit_code: the process's exit code; 1 unless the command promises another.
    """

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class ReaderGone(Exception):
    """Whoever read standard output has gone away (`| head`), so there is nothing more to do; not a failure."""


class UsageProblem(CommandError):
    """The command line contradicts itself or has a bad value; exit code 2."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=2)
