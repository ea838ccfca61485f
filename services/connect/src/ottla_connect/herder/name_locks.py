"""Locks by connector: two requests about one do not mix between a check and the writes that it allows."""

import asyncio
from weakref import WeakValueDictionary


class NameLocks:
    """A lock for each name, as long as somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, name: str) -> asyncio.Lock:
        """Return a name's lock, for `async with`."""
        return self._locks.setdefault(name, asyncio.Lock())
