"""Heartbeats as MirrorMaker 2 writes them, from which its tools tell what follows what, and how late.

A flow writes them at its target. MirrorMaker also writes those of the way back at the source, flow or not, so that
they arrive at the target by the flow; `ottla_mirror` does likewise with a second `Heartbeats`.
Source of the format: `Heartbeat` in Kafka's connect/mirror-client.
"""

from typing import Final, NamedTuple

from ottla_core.errors import InvalidRecord
from ottla_mirror.internal_topics.internal_topic import InternalTopic
from ottla_mirror.internal_topics.struct_fields import INT16, INT64, FieldReader, string
from ottla_mirror.internal_topics.topic_requests import Entry

VERSION: Final = 0


class Heartbeat(NamedTuple):
    """A sign of life.

    Attributes:
        source_alias: of the flow.
        target_alias: of the flow.
        timestamp_ms: when it was written.
    """

    source_alias: str
    target_alias: str
    timestamp_ms: int

    def entry(self) -> Entry:
        """Return it as a record."""
        key = string(self.source_alias) + string(self.target_alias)
        return Entry(key, INT16.pack(VERSION) + INT64.pack(self.timestamp_ms))


def read_heartbeat(key: bytes, value: bytes) -> Heartbeat:
    """Return the heartbeat that a record is.

    Raises:
        InvalidRecord: it is malformed, or of a later version.
    """
    keys, values = FieldReader(key, "key of a heartbeat"), FieldReader(value, "heartbeat")
    version = values.int16()
    if version != VERSION:
        raise InvalidRecord(f"a heartbeat has version {version}; this worker knows version {VERSION}")
    return Heartbeat(keys.string(), keys.string(), values.int64())


class Heartbeats:
    """Writes the heartbeats of a flow.

    Args:
        topic: the heartbeats topic of the flow's target.
        source_alias: of the flow.
        target_alias: of the flow.
    """

    def __init__(self, topic: InternalTopic, *, source_alias: str, target_alias: str) -> None:
        self._topic = topic
        self._source_alias = source_alias
        self._target_alias = target_alias

    async def start(self) -> None:
        """Make the topic if it is not there.

        Raises:
            InternalTopicError: it cannot be made.
            AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        await self._topic.ensure()

    async def beat(self, now_ms: int) -> None:
        """Write one.

        Raises:
            InternalTopicError: it could not be written.
            AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        await self._topic.append([Heartbeat(self._source_alias, self._target_alias, now_ms).entry()])
