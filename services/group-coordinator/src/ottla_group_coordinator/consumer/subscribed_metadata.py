"""A number that stands for all that an assignment depends on of the topics that a group subscribes to.

It is kept with the group's epoch, so that a coordinator that has just loaded the group sees whether topics have
come, gone or grown since. It need not agree with Kafka's number: where it differs, the group rebalances once.

Source: KIP-1101.
"""

import hashlib
from collections.abc import Collection

from ottla_core.cluster.state.model import Topic

NO_TOPICS = 0
_HASH_BYTES = 8


def metadata_hash(topics: Collection[Topic]) -> int:
    """Return a signed 64-bit number for the topics' ids, names and partition counts, in whatever order they come."""
    if not topics:
        return NO_TOPICS
    digest = hashlib.blake2b(digest_size=_HASH_BYTES)
    for topic in sorted(topics, key=lambda topic: topic.name):
        digest.update(f"{topic.name} {topic.id} {len(topic.partitions)}\n".encode())
    return int.from_bytes(digest.digest(), "big", signed=True)
