"""Remembers what was made of a schema: its JSON form, a compiled codec, the schema a transform makes of it.

Comparing schemas costs more than most of the work on a record. Connectors mostly use the same `Schema` object again
and again, so the cache first looks for that very object, and compares only if it is a new one.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Generic, TypeVar

from ottla_sdk.schema import Schema

MadeT = TypeVar("MadeT")


class SchemaCache(Generic[MadeT]):
    """What `make` makes of each schema; the least recently made are forgotten.

    Args:
        make: makes it; what it raises is passed on and nothing is remembered.
        size_max: how many are kept at most.
    """

    def __init__(self, make: Callable[[Schema], MadeT], size_max: int) -> None:
        assert size_max > 0, "a cache of no size"
        self._make = lru_cache(size_max)(make)
        self._size_max = size_max
        self._by_object: dict[int, tuple[Schema, MadeT]] = {}

    def get(self, schema: Schema) -> MadeT:
        """Return what `make` makes, or has made, of a schema."""
        found = self._by_object.get(id(schema))
        # The object is kept with the entry, so no other one can have its id while the entry is there.
        return found[1] if found is not None else self._compared(schema)

    def __len__(self) -> int:
        return self._make.cache_info().currsize

    def _compared(self, schema: Schema) -> MadeT:
        made = self._make(schema)
        self._by_object[id(schema)] = (schema, made)
        if len(self._by_object) > self._size_max:
            del self._by_object[next(iter(self._by_object))]
        return made
