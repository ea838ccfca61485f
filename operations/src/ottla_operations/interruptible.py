"""Calls into libraries that hear of no signal until they return, made so that Ctrl-C ends the command at once."""

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def interruptible(call: Callable[[], Result], *, within_s: float | None = None) -> Result:
    """Return what a call returns, or raise what it raises; after an interrupt its thread is left to itself.

    Raises:
        TimeoutError: it has not returned within so many seconds.
    """
    outcome: queue.SimpleQueue[tuple[Result | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put((call(), None))
        except BaseException as error:  # noqa: BLE001 - raised below, where it was called for
            outcome.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        result, error = outcome.get(timeout=within_s)
    except queue.Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value] # it is a Result where there is no error
