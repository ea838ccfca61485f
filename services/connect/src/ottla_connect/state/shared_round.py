"""One question, asked once for all who want the answer: each gets one that was asked for after it came."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from ottla_core.background import start_awaited

T = TypeVar("T")


class SharedRound(Generic[T]):
    """Asks for those who join; who comes while a round is under way gets the next one's answer.

    Args:
        ask: asks once.
    """

    def __init__(self, ask: Callable[[], Awaitable[T]]) -> None:
        self._ask = ask
        self._current: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def join(self) -> T:
        """Return an answer to a question that is asked from now on; raises what asking raises."""
        if self._next is None:
            self._next = start_awaited("shared question", self._begin(self._current))
            self._next.add_done_callback(_noticed)
        return await asyncio.shield(self._next)

    async def _begin(self, current: "asyncio.Task[T] | None") -> T:
        if current is not None:
            await asyncio.wait([current])
        self._current, self._next = self._next, None
        return await self._ask()


def _noticed(task: "asyncio.Task[T]") -> None:
    """Look at a round's failure, in case nobody who wanted the answer waits any more."""
    if not task.cancelled():
        task.exception()
