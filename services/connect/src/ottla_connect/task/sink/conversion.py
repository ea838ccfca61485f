"""Turns what a consumer returns into records for a sink task.

Messages without headers are converted many at a time, and no object is made for a record but the record. One with
which something goes wrong goes through the error handler by itself, which may try again or drop it. Converters are
functions of their bytes, so converting once more does no harm; transforms go on behind the step that failed.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Protocol

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE, KafkaError, Message

from ottla_connect.task.pipeline.converters import Converters, check_count
from ottla_connect.task.pipeline.error_handler import DROPPED, ErrorHandler
from ottla_connect.task.pipeline.errors import Stage
from ottla_connect.task.pipeline.transform_chain import TransformChain
from ottla_sdk import Converter, Header, SinkRecord

APPEND_TIME = TIMESTAMP_LOG_APPEND_TIME
NO_TIME = TIMESTAMP_NOT_AVAILABLE
TRACE_PARENT = "traceparent"
W3C_TRACE_PARENT = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
"""A value of that header, by W3C Trace Context."""

RawHeaders = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class _Taken:
    """What converters have made of messages; what is at the same place belongs together."""

    messages: Any
    partitions: Any
    offsets: Any
    keys: Any
    values: Any
    headers: Any


@dataclass(slots=True, kw_only=True)
class KeptRecord(SinkRecord):
    """A record that still has the message it was made of, for the dead letter topic.

    Attributes:
        message: as it was read.
    """

    message: Message


class ReadListener(Protocol):
    """Hears of which messages records are made."""

    def read(self, topic: str, partitions: Sequence[int], offsets: Sequence[int]) -> None:
        """Messages of a topic, in this order: the partition and the offset of each."""


class SinkConversion:
    """Converts and transforms.

    Args:
        converters: of the connector.
        chain: its transforms.
        handler: what is done about errors.
        keep_messages: whether records keep their messages.
        on_error: hears of errors that the consumer returns instead of messages.
    """

    def __init__(
        self,
        *,
        converters: Converters,
        chain: TransformChain[Message],
        handler: ErrorHandler[Message],
        keep_messages: bool,
        on_error: Callable[[KafkaError], None],
    ) -> None:
        self._converters = converters
        self._chain = chain
        self._handler = handler
        self._keep_messages = keep_messages
        self._on_error = on_error

    def convert(self, messages: Sequence[Message], listener: ReadListener) -> list[SinkRecord]:
        """Return the records of messages without those dropped, in order; tell the listener what was read.

        Where messages of several topics are mixed, the records are those of one topic after the other.

        Raises:
            ToleranceExceeded: a record cannot be handled, and errors are not tolerated.
            WrongCount: a converter has returned too few results, or too many.
            Interrupted: the task is to stop.
        """
        records: list[SinkRecord] = []
        for topic, group in self._by_topic(messages):
            partitions: list[Any] = [*map(Message.partition, group)]  # maps take less time than comprehensions
            offsets: list[Any] = [*map(Message.offset, group)]
            listener.read(topic, partitions, offsets)
            if any(map(Message.headers, group)):
                taken = self._one_by_one(topic, group)
            else:
                key, value = self._converters.key, self._converters.value
                try:
                    keys = key.deserialize_many(topic, [*map(Message.key, group)])
                    values = value.deserialize_many(topic, [*map(Message.value, group)])
                except Exception:  # noqa: BLE001 - one of them is bad, and the handler decides about it
                    taken = self._one_by_one(topic, group)
                else:
                    check_count(key, topic, keys, len(group))
                    check_count(value, topic, values, len(group))
                    taken = _Taken(group, partitions, offsets, keys, values, repeat(()))
            self._make_records(topic, taken, records)
        return records

    def _by_topic(self, messages: Sequence[Message]) -> Iterable[tuple[str, Sequence[Message]]]:
        """Return the messages of each topic; pass errors on."""
        if any(map(Message.error, messages)):
            for error in filter(None, map(Message.error, messages)):
                self._on_error(error)
            messages = [each for each in messages if each.error() is None]
        topics: list[Any] = [*map(Message.topic, messages)]
        if not topics:
            return ()
        if topics.count(topics[0]) == len(topics):
            return ((topics[0], messages),)
        groups: dict[str, list[Message]] = {}
        for topic, message in zip(topics, messages, strict=True):
            groups.setdefault(topic, []).append(message)
        return groups.items()

    def _one_by_one(self, topic: str, messages: Sequence[Message]) -> "_Taken":
        key_of, value_of = self._converters.key.deserialize, self._converters.value.deserialize
        taken = _Taken([], [], [], [], [], [])
        for message in messages:
            raw: Any = message.headers() or ()
            try:
                key = key_of(topic, message.key(), raw)
                value = value_of(topic, message.value(), raw)
                headers = self._headers(topic, raw)
            except Exception:  # noqa: BLE001 - the handler decides about whatever a converter raises
                if (converted := self._carefully(topic, message)) is None:
                    continue
                key, value, headers = converted
            taken.messages.append(message)
            taken.partitions.append(message.partition())
            taken.offsets.append(message.offset())
            taken.keys.append(key)
            taken.values.append(value)
            taken.headers.append(headers)
        return taken

    def _make_records(self, topic: str, taken: "_Taken", records: list[SinkRecord]) -> None:
        keep, chain = self._keep_messages, self._chain or None
        kind: type[SinkRecord] = KeptRecord if keep else SinkRecord
        new = kind.__new__
        rows = zip(
            taken.messages, taken.partitions, taken.offsets, taken.keys, taken.values, taken.headers, strict=False
        )
        for message, partition, offset, (key_schema, key), (value_schema, value), headers in rows:
            # The class's __init__ would cost as much as all the rest of this loop.
            record = new(kind)
            record.topic = record.original_topic = topic
            record.partition = record.original_partition = partition
            record.offset = offset
            record.key = key
            record.key_schema = key_schema
            record.value = value
            record.value_schema = value_schema
            record.headers = headers
            clock, record.timestamp_ms = message.timestamp()
            record.timestamp_is_append_time = clock == APPEND_TIME
            if clock == NO_TIME:
                record.timestamp_ms = None
            if keep:
                record.message = message  # type: ignore[attr-defined]
            if chain is not None:
                changed = chain.apply(record, message)
                if changed is None:
                    continue
                assert isinstance(changed, SinkRecord)
                record = changed
            records.append(record)

    def message_of(self, record: SinkRecord) -> Message:
        """Return the message that a record was made of, or if it is not known one like it."""
        if isinstance(record, KeptRecord) and hasattr(record, "message"):
            return record.message
        topic = record.original_topic or record.topic
        return Message(
            topic=topic,
            partition=record.original_partition,
            offset=record.offset,
            key=self._converters.key.serialize(topic, record.key_schema, record.key, record.headers),
            value=self._converters.value.serialize(topic, record.value_schema, record.value, record.headers),
            headers=[(each.key, self._converters.header.serialize_header(topic, each)) for each in record.headers],
            timestamp=(TIMESTAMP_NOT_AVAILABLE, 0) if record.timestamp_ms is None else (1, record.timestamp_ms),
        )

    def _headers(self, topic: str, raw: RawHeaders) -> tuple[Header, ...]:
        converter = self._converters.header
        made = []
        for key, data in raw:
            try:
                schema, value = converter.deserialize_header(topic, key, data)
            except Exception:
                # Whoever traces writes it past all converters, and this one cannot read it.
                if key != TRACE_PARENT or data is None or not W3C_TRACE_PARENT.fullmatch(data):
                    raise
                schema, value = None, data.decode("ascii")
            made.append(Header(key, value, schema))
        return tuple(made)

    def _carefully(self, topic: str, message: Message) -> tuple[Any, Any, tuple[Header, ...]] | None:
        raw: Any = message.headers() or ()
        key, value, header = self._converters.key, self._converters.value, self._converters.header
        results = []
        steps: tuple[tuple[Callable[[], Any], Stage, Converter[Any]], ...] = (
            (lambda: key.deserialize(topic, message.key(), raw), Stage.KEY_CONVERTER, key),
            (lambda: value.deserialize(topic, message.value(), raw), Stage.VALUE_CONVERTER, value),
            (lambda: self._headers(topic, raw), Stage.HEADER_CONVERTER, header),
        )
        for operation, stage, converter in steps:
            result = self._handler.attempt(operation, message, stage, type(converter))
            if result is DROPPED:
                return None
            results.append(result)
        return results[0], results[1], results[2]


def described(message: Message) -> str:
    """Return which message it is, for the log (Kafka's LogReporter)."""
    _, timestamp_ms = message.timestamp()
    return (
        f"{{topic='{message.topic()}', partition={message.partition()}, offset={message.offset()}, "
        f"timestamp={timestamp_ms}}}"
    )
