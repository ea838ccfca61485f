"""Which partition of ``__consumer_offsets`` keeps a group: Kafka's rule, so its tools look in the right place."""

from functools import lru_cache

GROUP_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({GROUP_TOPIC})

HASHES_KEPT_MAX = 8192
"""So many groups' hashes are kept: the same groups are asked about again and again, and to hash an id takes as long
as all the rest of finding its owner."""

KEPT_ID_CHARACTERS_MAX = 256
"""Longer ids are hashed anew each time, as what is kept must stay small whatever clients send."""


def shard_of(group_id: str, shard_count: int) -> int:
    """Return a group's partition: Java's `String.hashCode` without its sign bit, modulo the number of partitions.

    Source: `Utils.abs(groupId.hashCode) % partitionCount` in Kafka's GroupCoordinatorService.
    """
    java_hash = _kept_java_hash if len(group_id) <= KEPT_ID_CHARACTERS_MAX else _java_hash
    return (java_hash(group_id) & 0x7FFFFFFF) % shard_count


def _java_hash(text: str) -> int:
    """Return the 32 bits of Java's hash of a string, which runs over UTF-16 code units."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value


_kept_java_hash = lru_cache(HASHES_KEPT_MAX)(_java_hash)
