"""Records on their way between a topic and a system outside. Pure.

Records are not changed in place: `replaced` returns a changed copy. (They are not frozen only because that would
triple what making one costs.)
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from ottla_sdk.schema import Schema


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Header(NamedTuple):
    """A header of a record; a key may stand several times.

    Attributes:
        key: its name.
        value: its value.
        schema: the value's schema, if there is one.
    """

    key: str
    value: Any
    schema: Schema | None = None


@dataclass(slots=True, kw_only=True)
class ConnectRecord:
    """What records have in common; transforms and predicates work on these.

    Attributes:
        topic: the topic that it is from or for.
        partition: the partition; None lets the producer choose one by the key.
        key: the key.
        key_schema: the key's schema; None if it has none.
        value: the value; None is a tombstone.
        value_schema: the value's schema; None if it has none.
        timestamp_ms: milliseconds since the epoch; None lets the producer say when.
        headers: the headers, in order.
    """

    topic: str
    partition: int | None = None
    key: Any = None
    key_schema: Schema | None = None
    value: Any = None
    value_schema: Schema | None = None
    timestamp_ms: int | None = None
    headers: tuple[Header, ...] = ()

    def replaced(self, **changes: Any) -> Self:
        """Return a copy with these attributes changed."""
        made = copy(self)
        for name, value in changes.items():
            setattr(made, name, value)  # an unknown name is an AttributeError: there are only slots
        return made


@dataclass(slots=True, kw_only=True)
class SourceRecord(ConnectRecord):
    """A record that a source task has read from its system.

    Attributes:
        source_partition: which part of the system it is from, such as ``{"file": "/var/log/syslog"}``; JSON values.
        source_offset: where a restarted task goes on behind this record, such as ``{"position": 4711}``; JSON values.
    """

    source_partition: Mapping[str, Any]
    source_offset: Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class SinkRecord(ConnectRecord):
    """A record of a topic for a sink task.

    Attributes:
        offset: its offset in the partition it was read from.
        original_topic: the topic it was read from, whatever transforms made of `topic`.
        original_partition: the partition it was read from.
        timestamp_is_append_time: whether the broker set the timestamp.
    """

    offset: int
    original_topic: str = ""
    original_partition: int = -1
    timestamp_is_append_time: bool = False

    @property
    def origin(self) -> TopicPartition:
        """The partition that it was read from, which counts for offsets."""
        return TopicPartition(self.original_topic, self.original_partition)
