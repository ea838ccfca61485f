"""Spans of a sink task's batches; made only where traces are on.

A span begins before the messages of a batch are converted and ends when the task has taken its records, however often
it had to be asked. It links the contexts that the messages' headers name, `LINKS_MAX` of them, and belongs to the
first that is recorded, so that a trace goes on from the source to the sink. While `put` runs the span is the current
one, for plugins whose libraries make spans themselves.
"""

from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Message
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    get_current_span,
    use_span,
)

from ottla_connect.task.sink.conversion import ReadListener, SinkConversion
from ottla_core.observe.tracing import Tracing
from ottla_sdk import RetriableError, SinkRecord

LINKS_MAX = 128
CONTEXT_HEADERS = frozenset({"traceparent", "tracestate"})

Put = Callable[[Sequence[SinkRecord]], None]


class ProcessSpans:
    """The span of the batch that a sink task is at.

    Args:
        tracing: makes the spans.
        connector: whose task it is.
    """

    def __init__(self, tracing: Tracing, connector: str) -> None:
        self._tracing = tracing
        self._attributes: dict[str, str | int] = {
            "messaging.system": "kafka",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.consumer.group.name": f"connect-{connector}",
            "ottla.connector": connector,
        }
        self._span: Span | None = None

    def begin(self, messages: Sequence[Message]) -> None:
        """Begin the span of a batch."""
        self.end()
        if not messages:
            return
        contexts = self._contexts(messages)
        chosen = next((each for each in contexts if _context(each).trace_flags.sampled), next(iter(contexts), None))
        topics = {message.topic() for message in messages}
        attributes = {**self._attributes, "messaging.batch.message_count": len(messages)}
        name = "process"
        if len(topics) == 1 and (topic := topics.pop()) is not None:
            name, attributes["messaging.destination.name"] = f"process {topic}", topic
        self._span = self._tracing.tracer.start_span(
            name,
            chosen or Context(),
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=[Link(_context(each)) for each in contexts],
        )

    def end(self) -> None:
        """End the span, if there is one."""
        if self._span is not None:
            self._span.end()
            self._span = None

    def traced(self, put: Put) -> Put:
        """Return a `put` that runs within the batch's span."""

        def put_within(records: Sequence[SinkRecord]) -> None:
            if (span := self._span) is None:
                put(records)
                return
            try:
                with use_span(span, record_exception=False, set_status_on_exception=False):
                    put(records)
            except RetriableError as error:
                span.add_event("retry", {"exception.type": type(error).__name__})
                raise
            except BaseException as error:
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                self.end()
                raise
            self.end()

        return put_within

    def _contexts(self, messages: Sequence[Message]) -> Sequence[Context]:
        """Return the different contexts in the messages' headers."""
        found: dict[bytes, Context] = {}
        for message in messages:
            raw: Any = message.headers()
            if not raw or len(found) >= LINKS_MAX:
                continue
            carrier = {name: value for name, value in raw if name in CONTEXT_HEADERS and value}
            parent = carrier.get("traceparent")
            if parent is not None and parent not in found:
                texts = {name: value.decode("latin-1") for name, value in carrier.items()}
                context = self._tracing.propagator.extract(texts, Context())
                if _context(context).is_valid:
                    found[parent] = context
        return list(found.values())


class TracedConversion(SinkConversion):
    """A conversion with which the span of its batch begins."""

    def __init__(self, spans: ProcessSpans, **others: Any) -> None:
        super().__init__(**others)
        self._spans = spans

    def convert(self, messages: Sequence[Message], listener: ReadListener) -> list[SinkRecord]:
        """Begin the batch's span, and convert."""
        self._spans.begin(messages)
        return super().convert(messages, listener)


def _context(context: Context) -> SpanContext:
    return get_current_span(context).get_span_context()
