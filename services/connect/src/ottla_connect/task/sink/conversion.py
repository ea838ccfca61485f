"""Turns what a consumer returns into records for a sink task.

The way of nearly every record is one pass through `convert`, without a closure or a context object. A record with
which something goes wrong takes the other way, through the error handler, which may try again, or drop it. Converters
are functions of their bytes, so converting once more does no harm; transforms go on behind the step that failed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE, KafkaError, Message

from ottla_connect.task.pipeline.converters import Converters
from ottla_connect.task.pipeline.error_handler import DROPPED, ErrorHandler
from ottla_connect.task.pipeline.errors import Stage
from ottla_connect.task.pipeline.transform_chain import TransformChain
from ottla_connect.task.sink.positions import Positions
from ottla_sdk import Converter, Header, SinkRecord

RawHeaders = Sequence[tuple[str, bytes | None]]


@dataclass(slots=True, kw_only=True)
class KeptRecord(SinkRecord):
    """A record that still has the message it was made of, for the dead letter topic.

    Attributes:
        message: as it was read.
    """

    message: Message


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

    def convert(self, messages: Sequence[Message], positions: Positions) -> list[SinkRecord]:
        """Return the records of messages, in order, without those dropped; note in `positions` what was read.

        Raises:
            ToleranceExceeded: a record cannot be handled, and errors are not tolerated.
            Interrupted: the task is to stop.
        """
        key_of, value_of = self._converters.key.deserialize, self._converters.value.deserialize
        keep, chain = self._keep_messages, self._chain or None
        kind: type[SinkRecord] = KeptRecord if keep else SinkRecord
        new = kind.__new__
        records: list[SinkRecord] = []
        run_topic, run_partition, run_end = "", -1, -1
        for message in messages:
            if (failed := message.error()) is not None:
                self._on_error(failed)
                continue
            topic: Any = message.topic()
            partition: Any = message.partition()
            offset: Any = message.offset()
            raw: Any = message.headers()
            if partition != run_partition or topic != run_topic:
                if run_end >= 0:
                    positions.read(run_topic, run_partition, run_end)
                positions.begin(topic, partition, offset)
                run_topic, run_partition = topic, partition
            run_end = offset + 1
            try:
                key_schema, key = key_of(topic, message.key(), raw or ())
                value_schema, value = value_of(topic, message.value(), raw or ())
                headers = self._headers(topic, raw) if raw else ()
            except Exception:  # noqa: BLE001 - the other way decides about whatever a converter raises
                converted = self._carefully(message)
                if converted is None:
                    continue
                (key_schema, key), (value_schema, value), headers = converted
            # Its __init__ would cost as much as all the rest of this loop.
            record = new(kind)
            record.topic = record.original_topic = topic
            record.partition = record.original_partition = partition
            record.offset = offset
            record.key, record.key_schema = key, key_schema
            record.value, record.value_schema = value, value_schema
            record.headers = headers
            clock, timestamp_ms = message.timestamp()
            record.timestamp_ms = None if clock == TIMESTAMP_NOT_AVAILABLE else timestamp_ms
            record.timestamp_is_append_time = clock == TIMESTAMP_LOG_APPEND_TIME
            if keep:
                record.message = message  # type: ignore[attr-defined]
            if chain is not None:
                changed = chain.apply(record, message)
                if changed is None:
                    continue
                assert isinstance(changed, SinkRecord)
                record = changed
            records.append(record)
        if run_end >= 0:
            positions.read(run_topic, run_partition, run_end)
        return records

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
            schema, value = converter.deserialize_header(topic, key, data)
            made.append(Header(key, value, schema))
        return tuple(made)

    def _carefully(self, message: Message) -> tuple[Any, Any, tuple[Header, ...]] | None:
        topic = message.topic() or ""
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
