"""A value that is asked for once by all who want it, and kept for a while."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from ottla_core.background import start_awaited

Value = TypeVar("Value")


class Cached(Generic[Value]):
    """A value of bounded age.

    Args:
        kind: what it is, for the log.
        load: asks for a new one.
        age_max_s: how old a value may be that is given away.
    """

    def __init__(self, kind: str, load: Callable[[], Awaitable[Value]], *, age_max_s: float) -> None:
        self._kind = kind
        self._load = load
        self._age_max_s = age_max_s
        self._value: tuple[Value, float] | None = None
        self._loading: asyncio.Task[Value] | None = None

    async def get(self) -> Value:
        """Return a value that is young enough; whoever comes while it is asked for waits for the same answer."""
        if self._value is not None and time.monotonic() - self._value[1] < self._age_max_s:
            return self._value[0]
        if self._loading is None or self._loading.done():
            self._loading = start_awaited(self._kind, self._loaded())
        return await asyncio.shield(self._loading)

    def forget(self) -> None:
        """Ask anew the next time, as something was changed; an answer that is under way is not kept either."""
        self._value = None
        self._loading = None

    async def _loaded(self) -> Value:
        asked_at_s = time.monotonic()
        task = asyncio.current_task()
        value = await self._load()
        if self._loading is task:  # else it was forgotten meanwhile, and this answer may be from before the change
            self._value = (value, asked_at_s)
        return value
