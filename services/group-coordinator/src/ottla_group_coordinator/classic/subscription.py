"""The topics in a consumer's JoinGroup metadata.

Consumers put a ``ConsumerProtocolSubscription`` there. Every version of it begins with a version number and the list
of topics, so this needs to know no more than that, and a version that is yet to come does not trouble it.

Source: `ClassicGroup.computeSubscribedTopics` in Kafka.
"""

import struct

from ottla_core.errors import OttlaError
from ottla_core.wire.bounds import ITEMS_MAX

_VERSION_AND_COUNT = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


class MalformedSubscription(OttlaError):
    """The metadata is no subscription of a consumer."""


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Return the topics of a subscription of any version.

    Raises:
        MalformedSubscription: the metadata is something else.
    """
    try:
        version, count = _VERSION_AND_COUNT.unpack_from(metadata)
        if version < 0 or not 0 <= count <= ITEMS_MAX:
            raise MalformedSubscription(f"version {version} with {count} topics")
        topics: set[str] = set()
        offset = _VERSION_AND_COUNT.size
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, offset)
            offset += _LENGTH.size
            if length < 0 or offset + length > len(metadata):
                raise MalformedSubscription(f"a topic of {length} bytes at {offset} of {len(metadata)}")
            topics.add(metadata[offset : offset + length].decode())
            offset += length
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedSubscription(str(error)) from None
    return frozenset(topics)
