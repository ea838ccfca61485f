"""How the process of a connector or task ended, in words for people. Pure."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """What a process may use.

    Attributes:
        memory_bytes: anonymous memory; 0 sets no limit.
    """

    memory_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """The end of a process.

    Attributes:
        exit_code: its exit code; None if a signal ended it.
        signal: the signal that ended it; None if none did.
        memory_bytes: what it used when it was killed for that; None if it was not.
        reason: why it ended.
        last_lines: the last lines of its output.
    """

    exit_code: int | None
    signal: int | None
    memory_bytes: int | None
    reason: str
    last_lines: Sequence[str]


class ProcessFailed(Exception):
    """A process could not be started, or ended without the answer that it was asked for.

    Attributes:
        reason: why.
        last_lines: the last lines of its output, if it had any.
    """

    def __init__(self, reason: str, last_lines: Sequence[str] = ()) -> None:
        self.reason = reason
        self.last_lines = last_lines
        super().__init__(reason)


def memory_reason(used_bytes: int, limit_bytes: int) -> str:
    """Return why a process was killed for its memory."""
    used, limit = -(-used_bytes // MEBIBYTE), limit_bytes / MEBIBYTE
    return f"used {used} MiB, more than task.memory.max.bytes allows ({limit:.4g} MiB)"


def exit_reason(exit_code: int | None, signal_number: int | None, *, last_word: str | None) -> str:
    """Return why a process ended that this worker did not kill.

    Args:
        exit_code: its exit code, or None.
        signal_number: the signal that ended it, or None.
        last_word: what it said last: ``stopped``, ``failed`` or ``answered``; None if nothing.
    """
    if signal_number is not None:
        named = f"ended by signal {signal_number} ({_signal_name(signal_number)})"
        if signal_number == signal.SIGKILL:
            return f"{named}, which this worker did not send: somebody killed it, or the system ran out of memory"
        return named
    if exit_code:
        return f"ended with exit code {exit_code}"
    return last_word or "ended without saying why"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a real-time signal"
