"""Work in another thread, for which one may wait a little at a time."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

ResultT = TypeVar("ResultT")


class Background(Generic[ResultT]):
    """A function that runs in a thread of its own; the process does not wait for it when it ends."""

    def __init__(self, work: Callable[[], ResultT], name: str) -> None:
        """Begin."""
        self._work = work
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._result: ResultT
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def is_done(self, wait_s: float) -> bool:
        """Return whether it has ended, after waiting for that up to so many seconds."""
        return self._done.wait(wait_s)

    def result(self) -> ResultT:
        """Return what the function has returned, or raise what it has raised; it must have ended."""
        assert self._done.is_set(), "it has not ended"
        if self._error is not None:
            raise self._error
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001 - whoever asks for the result gets it
            self._error = error
        finally:
            self._done.set()
