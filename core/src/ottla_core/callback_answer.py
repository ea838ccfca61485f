"""An answer that comes by a call, in place of a future, for the requests that come most.

A future tells its result in later turns of the event loop, by way of objects that are made for each callback; for a
heartbeat that is a tenth of all it costs the broker. Here the function that waits for an answer is
called when it is settled. One party waits: a connection, which is told, or a coroutine, which awaits.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class CallbackAnswer(Generic[T]):
    """An answer that is settled once, or never where nobody waits any more.

    Attributes:
        is_settled: whether there is a result or an error.
        result: the answer.
        error: why there is none.
    """

    __slots__ = ("_tell", "error", "is_settled", "result")

    def __init__(self) -> None:
        self.is_settled = False
        self.result: T | None = None
        self.error: Exception | None = None
        self._tell: Callable[[CallbackAnswer[T]], None] | None = None

    def settle(self, result: T) -> None:
        """Give the answer; has no effect when there is one already."""
        if self.is_settled:
            return
        self.is_settled, self.result = True, result
        if self._tell is not None:
            self._tell(self)

    def fail(self, error: Exception) -> None:
        """Say why there is no answer; has no effect when there is one already."""
        if self.is_settled:
            return
        self.is_settled, self.error = True, error
        if self._tell is not None:
            self._tell(self)

    def when_settled(self, tell: Callable[["CallbackAnswer[T]"], None]) -> None:
        """Have `tell` called with this answer when it is settled, which may be now; it must not raise."""
        assert self._tell is None, "one party waits"
        self._tell = tell
        if self.is_settled:
            tell(self)

    def abandon(self) -> None:
        """Take note that nobody waits any more."""

    def __await__(self) -> Generator[Any, None, T]:
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def tell(_: CallbackAnswer[T]) -> None:
            if not told.done():
                told.set_result(None)

        self.when_settled(tell)
        try:
            yield from told
        finally:
            if not self.is_settled:
                self.abandon()
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]  # settled without an error
