"""Which partition of ``__consumer_offsets`` keeps a group: Kafka's rule, so its tools look in the right place."""

GROUP_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({GROUP_TOPIC})


def shard_of(group_id: str, shard_count: int) -> int:
    """Return a group's partition: Java's `String.hashCode` without its sign bit, modulo the number of partitions.

    Source: `Utils.abs(groupId.hashCode) % partitionCount` in Kafka's GroupCoordinatorService.
    """
    return (_java_hash(group_id) & 0x7FFFFFFF) % shard_count


def _java_hash(text: str) -> int:
    """Return the 32 bits of Java's hash of a string, which runs over UTF-16 code units."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value
