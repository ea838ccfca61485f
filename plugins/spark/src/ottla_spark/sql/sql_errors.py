"""What can end a statement or the command besides success."""


class SqlProblem(Exception):
    """Something cannot be done; the message is for the person who typed it.

    Attributes:
        exit_code: of the command, if it ends with this.
    """

    exit_code = 1


class UsageProblem(SqlProblem):
    """The command line contradicts itself or has a bad value."""

    exit_code = 2


class Interrupted(Exception):
    """Ctrl-C ended a statement."""


class InterruptedTwice(Interrupted):
    """Ctrl-C, and once more before the statement had ended: the person wants to leave."""


class ReaderGone(Exception):
    """Whoever read standard output has gone away (`| head`): there is nothing more to do, and that is no failure."""
