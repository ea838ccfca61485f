"""The one error of all operations: a sentence for the person who asked for something."""


class OperationError(Exception):
    """What was asked for cannot be done; the message says what was wrong and what to do.

    Attributes:
        exit_code: that of a command that ends with it; 1 unless the command promises another.
    """

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class UsageProblem(OperationError):
    """What was given contradicts itself or has a bad value; exit code 2."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=2)
