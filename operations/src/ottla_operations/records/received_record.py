"""A record as librdkafka hands it over."""

from typing import TYPE_CHECKING, Any

from ottla_operations.records.record_line import Record

if TYPE_CHECKING:
    from confluent_kafka import Message


def to_record(message: "Message") -> Record:
    """Return what a message holds."""
    kind, timestamp = message.timestamp()
    headers: Any = message.headers() or ()
    key: Any = message.key()
    value: Any = message.value()
    return Record(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        timestamp=timestamp if kind else None,
        key=key,
        value=value,
        headers=tuple(headers),
    )
