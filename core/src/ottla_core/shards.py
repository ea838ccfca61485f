"""The topics that are shared out among coordinators by partition, and which partition keeps what. Pure.

A partition of such a topic is a *shard*, and goes by its `TopicPartition`. Which shard keeps a group is Kafka's rule,
so its tools look in the right place.
"""

from functools import lru_cache

from ottla_core.topic_partition import TopicPartition

GROUP_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({GROUP_TOPIC, TRANSACTION_TOPIC})
SHARDED_TOPICS = (GROUP_TOPIC, TRANSACTION_TOPIC)
"""The topics of which coordinators own partitions; everything about shards goes over these."""

SHARDS_KEPT_MAX = 1024
"""So many names of shards are kept: requests come for the same ones all the time."""

HASHES_KEPT_MAX = 8192
"""So many groups' hashes are kept: the same groups are asked about again and again, and to hash an id takes as long
as all the rest of finding its owner."""

KEPT_ID_CHARACTERS_MAX = 256
"""Longer ids are hashed anew each time, as what is kept must stay small whatever clients send."""


@lru_cache(SHARDS_KEPT_MAX)
def shard_named(topic: str, index: int) -> TopicPartition:
    """Return the name of a shard; the same object each time, as far as so many are kept."""
    return TopicPartition(topic, index)


def shard_of(group_id: str, shard_count: int) -> TopicPartition:
    """Return a group's shard: Java's `String.hashCode` without its sign bit, modulo the number of partitions.

    Source: `Utils.abs(groupId.hashCode) % partitionCount` in Kafka's GroupCoordinatorService.
    """
    return shard_named(GROUP_TOPIC, _shard_index(group_id, shard_count))


def transaction_shard_of(transactional_id: str, shard_count: int) -> TopicPartition:
    """Return a transactional id's shard, by the same rule.

    Source: `TransactionStateManager.partitionFor` in Kafka.
    """
    return shard_named(TRANSACTION_TOPIC, _shard_index(transactional_id, shard_count))


def _shard_index(name: str, shard_count: int) -> int:
    java_hash = _kept_java_hash if len(name) <= KEPT_ID_CHARACTERS_MAX else _java_hash
    return (java_hash(name) & 0x7FFFFFFF) % shard_count


def _java_hash(text: str) -> int:
    """Return the 32 bits of Java's hash of a string, which runs over UTF-16 code units."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value


_kept_java_hash = lru_cache(HASHES_KEPT_MAX)(_java_hash)
