"""What a plugin raises, and what the runtime makes of it.

| raised | the runtime |
|---|---|
| `RetriableError` | repeats the call after a pause: `poll` and `put` for ever, transforms and converters up to |
| | `errors.retry.timeout`, then the task fails; a task that fails with it is started anew with growing pauses, |
| | for ever. No record is skipped for it, whatever `errors.tolerance` says |
| `DataError` | goes by `errors.tolerance`: fails the task, or skips the record, which may go to a dead letter topic |
| `FatalError` | fails the task; it stays failed until somebody restarts it or changes its configuration |
| anything else | fails the task; it is restarted with growing pauses, up to `task.restart.attempts.max` times |

In transforms, predicates and converters whatever else is raised counts as a `DataError`, as in Kafka Connect.

What is wrong with a configuration is not raised but listed, as `Problem`s, so that a user sees all of it at once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


class ConnectError(Exception):
    """Base of all errors that a plugin raises on purpose; the message is shown to the user."""


class RetriableError(ConnectError):
    """What failed may work a little later: a connection was lost, a server is busy.

    Attributes:
        retry_in_ms: until then trying again is of no use, as far as the plugin knows; `poll` is not called before.
    """

    def __init__(self, message: str, *, retry_in_ms: int = 0) -> None:
        super().__init__(message)
        self.retry_in_ms = retry_in_ms


class DataError(ConnectError):
    """One record cannot be handled, now or ever; others may."""


class FatalError(ConnectError):
    """Trying again is of no use until somebody changes something."""


class NotPermitted(ConnectError):
    """Somebody else may be at it by now; nothing may be written. Leave it to the runtime."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a configuration.

    Attributes:
        key: the setting at fault, such as ``batch.rows.max``; empty if no single one is.
        message: what is wrong and what would be right, without the key.
    """

    key: str
    message: str

    def __str__(self) -> str:
        """Return one line for people."""
        return f"{self.key}: {self.message}" if self.key else self.message


class InvalidConfig(FatalError):
    """A configuration is wrong.

    Attributes:
        problems: all that is wrong with it.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: Sequence[Problem] = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))
