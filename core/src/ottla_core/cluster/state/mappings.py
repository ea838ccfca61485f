"""The mappings of a snapshot, which are never changed in place: what is equal stays the same object. Pure."""

from collections.abc import Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def with_entry(mapping: Mapping[K, V], key: K, value: V | None) -> Mapping[K, V]:
    """Return the mapping with one entry set, or with None removed."""
    copy = dict(mapping)
    if value is None:
        copy.pop(key, None)
    else:
        copy[key] = value
    return copy


def keep_identity(before: Mapping[K, V], after: Mapping[K, V]) -> Mapping[K, V]:
    """Return `after`, with the objects of `before` where they are equal; `before` itself if all are."""
    kept = {key: former if (former := before.get(key)) == value else value for key, value in after.items()}
    return before if kept == before else kept
