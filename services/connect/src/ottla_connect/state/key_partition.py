"""The partition of a topic to which Java's producer sends a key, and Kafka Connect the offset of a source. Pure."""

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_SHIFT = 24
_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF
_WORD = 4


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key among so many (Kafka's BuiltInPartitioner)."""
    return (murmur2(key) & _POSITIVE) % partitions


def murmur2(data: bytes) -> int:
    """Return Austin Appleby's MurmurHash2 with the seed of Kafka's clients, as an unsigned number of 32 bits."""
    length = len(data)
    whole = length - length % _WORD
    value = _SEED ^ length
    for at in range(0, whole, _WORD):
        word = int.from_bytes(data[at : at + _WORD], "little") * _FACTOR & _MASK
        word = (word ^ word >> _SHIFT) * _FACTOR & _MASK
        value = (value * _FACTOR & _MASK) ^ word
    if whole < length:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _MASK
    value = (value ^ value >> 13) * _FACTOR & _MASK
    return value ^ value >> 15
