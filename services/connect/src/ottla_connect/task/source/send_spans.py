"""Spans of a source task's batches; made only where traces are on.

Each call of `send` is one span, which ends when the topics have acknowledged or refused all its records. If it is
recorded, its context goes into their headers as `traceparent` (W3C Trace Context), behind converters and transforms;
a record that has one keeps it. A batch that is not recorded goes the way of all batches: the producer's `produce` is
replaced only while a recorded one is handed over.
"""

from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context

from ottla_connect.task.source.sender import Sender
from ottla_core.observe.tracing import Tracing
from ottla_sdk import SourceRecord

TRACE_PARENT = "traceparent"


class TracedProducer(Producer):
    """A producer by which a recorded batch can send its records."""

    def carry(self, batch: "_Batch | None") -> None:
        """Have records take the headers of a batch along, or none any more."""
        if batch is None:
            self.__dict__.pop("produce", None)
        else:
            self.__dict__["produce"] = batch.produce


class TracedSender(Sender):
    """A sender that makes a span for each batch; its producer is a `TracedProducer`."""

    def __init__(self, *, tracing: Tracing, connector: str, **others: Any) -> None:
        super().__init__(**others)
        self._tracing = tracing
        self._attributes = {"messaging.system": "kafka", "messaging.operation.name": "publish"}
        self._attributes |= {"messaging.operation.type": "send", "ottla.connector": connector}

    def send(self, records: Sequence[SourceRecord]) -> None:
        """Hand all records to the producer, within a span."""
        span = self._tracing.tracer.start_span("publish", kind=SpanKind.PRODUCER, attributes=self._attributes)
        if not span.is_recording():
            super().send(records)
            return
        producer = self._producer
        assert isinstance(producer, TracedProducer)
        headers: dict[str, str] = {}
        self._tracing.propagator.inject(headers, set_span_in_context(span))
        batch = _Batch(span, headers, super(TracedProducer, producer).produce)
        producer.carry(batch)
        try:
            super().send(records)
        except BaseException as error:
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            producer.carry(None)
            batch.seal()


class _Batch:
    """A recorded batch: puts its context into records, and ends its span with the last answer."""

    def __init__(self, span: Span, headers: dict[str, str], produce: Callable[..., None]) -> None:
        self._span = span
        self._headers = [(key, value.encode()) for key, value in headers.items()]
        self._produce = produce
        self._topic: str | None = None
        self._same_topic = True
        self._sent = self._outstanding = self._refused = 0
        self._sealed = False

    def produce(  # noqa: PLR0917 - the producer's own signature
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        report: Callable[[KafkaError | None, Message], None],
        _on_delivery: object = None,
        timestamp_ms: int = 0,
        headers: list[tuple[str, Any]] | None = None,
    ) -> None:
        """Do what the producer's `produce` does, with the batch's headers."""
        if headers is None or all(name != TRACE_PARENT for name, _ in headers):
            headers = [*(headers or ()), *self._headers]

        def reported(error: KafkaError | None, message: Message) -> None:
            self._outstanding -= 1
            self._refused += error is not None
            report(error, message)
            self._end_if_done()

        self._produce(topic, value, key, partition, reported, reported, timestamp_ms, headers)
        self._same_topic = self._same_topic and self._topic in (None, topic)
        self._topic = topic
        self._sent += 1
        self._outstanding += 1

    def seal(self) -> None:
        """Note that all records are handed over."""
        self._sealed = True
        self._span.set_attribute("messaging.batch.message_count", self._sent)
        if self._topic is not None and self._same_topic:
            self._span.update_name(f"publish {self._topic}")
            self._span.set_attribute("messaging.destination.name", self._topic)
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._sealed and not self._outstanding:
            if self._refused:
                self._span.set_status(Status(StatusCode.ERROR, f"{self._refused} records were refused"))
            self._span.end()
