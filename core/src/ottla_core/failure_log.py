"""Failed attempts to be let in, as the log tells them: however many there are, some lines a second. Pure."""

from typing import Final

REASON_CHARACTERS_MAX: Final = 500
"""Of a reason, of which a client may have chosen a part: a line of the log has no more, however long a name is."""


class FailureLog:
    """Which failures the log tells: so many within a second, and afterwards how many it left out.

    Attributes:
        failures: how many there were.
    """

    LINES_PER_SECOND: Final = 10

    def __init__(self) -> None:
        self.failures = 0
        self._second = 0
        self._lines = 0
        self._left_out = 0

    def note(self, now_s: float) -> int | None:
        """Count a failure; return how many were left out before it, None if it is left out itself."""
        self.failures += 1
        if int(now_s) != self._second:
            self._second, self._lines = int(now_s), 0
        if self._lines >= self.LINES_PER_SECOND:
            self._left_out += 1
            return None
        self._lines += 1
        left_out, self._left_out = self._left_out, 0
        return left_out


def reason_for_log(reason: str) -> str:
    """Return a reason as a line of the log has it."""
    return reason if len(reason) <= REASON_CHARACTERS_MAX else f"{reason[: REASON_CHARACTERS_MAX - 1]}…"
