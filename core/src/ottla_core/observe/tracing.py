"""Makes the spans of a process and sends them by OTLP over HTTP, through OpenTelemetry's SDK.

A trace that begins here is recorded with the probability of `traces.sample.ratio`; one that began elsewhere, if it is
recorded there. Finished spans wait in a queue for a thread that sends them, `BATCH_SPANS_MAX` at a time. The SDK's
own queue does not tell what it drops, and may hold up the end of a process for half a minute; ours counts, and gives
up after `END_TIMEOUT_S`.
"""

import asyncio
import logging
import threading
from collections import deque
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ottla_core.background import start_thread
from ottla_core.observe.traces import SpanCounts, TracedProcess
from ottla_core.trace_settings import TraceSettings

QUEUE_SPANS_MAX: Final = 2048
BATCH_SPANS_MAX: Final = 512
SEND_INTERVAL_S: Final = 2.0
SEND_TIMEOUT_S: Final = 5.0
END_TIMEOUT_S: Final = 2.0
INSTRUMENTATION: Final = "ottla"
TOLD_HERE: Final = "opentelemetry"
"""The library's loggers. It complains of every batch that fails; this file says once that the receiver is away."""

log = logging.getLogger(__name__)


class SpanQueue(SpanProcessor):
    """Sends finished spans from a thread of its own.

    Args:
        exporter: sends some spans, and takes its time.
        counts: is told what becomes of them.
    """

    def __init__(self, exporter: SpanExporter, counts: SpanCounts) -> None:
        self._exporter = exporter
        self._counts = counts
        self._spans: deque[ReadableSpan] = deque()
        self._changed = threading.Condition()
        self._ending = False
        self._is_away = False
        self._thread = start_thread("traces", self._run)

    def on_end(self, span: ReadableSpan) -> None:
        """Take a finished span; never waits for anything but the queue's lock."""
        with self._changed:
            if self._ending or len(self._spans) >= QUEUE_SPANS_MAX:
                self._counts.dropped += 1
                return
            self._spans.append(span)
            if len(self._spans) >= BATCH_SPANS_MAX:
                self._changed.notify()

    def shutdown(self) -> None:
        """Send what is left, for `END_TIMEOUT_S` at most; what is not sent then counts as dropped."""
        with self._changed:
            if self._ending:
                return
            self._ending = True
            self._changed.notify()
        self._thread.join(END_TIMEOUT_S)
        with self._changed:
            self._counts.dropped += len(self._spans)
            self._spans.clear()
        self._exporter.shutdown()  # also wakes the thread if it waits before another attempt

    def force_flush(self, timeout_millis: int = 0) -> bool:
        """Have the thread send now, without waiting for that."""
        with self._changed:
            self._changed.notify()
        return True

    def _run(self) -> None:
        while (batch := self._take()) is not None:
            if batch:
                self._send(batch)

    def _take(self) -> list[ReadableSpan] | None:
        """Wait until some spans are due; None at the end."""
        with self._changed:
            if not self._ending and len(self._spans) < BATCH_SPANS_MAX:
                self._changed.wait(SEND_INTERVAL_S)
            if self._ending and not self._spans:
                return None
            return [self._spans.popleft() for _ in range(min(len(self._spans), BATCH_SPANS_MAX))]

    def _send(self, spans: list[ReadableSpan]) -> None:
        try:
            done = self._exporter.export(spans) is SpanExportResult.SUCCESS
        except Exception:  # whatever a library raises, the next batch may go through
            log.exception("could not send spans")
            done = False
        if done:
            self._counts.sent += len(spans)
        else:
            self._counts.undelivered += len(spans)
        if done is self._is_away:
            self._is_away = not done
            if done:
                log.info("the receiver of traces takes spans again")
            else:
                log.warning("the receiver of traces does not take spans; they are lost until it does")


class Tracing:
    """Makes the spans of this process.

    Attributes:
        counts: what became of them.
        provider: of OpenTelemetry's tracers.
        tracer: makes Ottla's own spans.
        propagator: writes and reads `traceparent` and `tracestate` (W3C Trace Context).
    """

    def __init__(self, settings: TraceSettings, process: TracedProcess) -> None:
        logging.getLogger(TOLD_HERE).setLevel(logging.CRITICAL)
        self.counts = SpanCounts()
        exporter = OTLPSpanExporter(
            endpoint=settings.traces_url, headers=settings.traces_headers, timeout=SEND_TIMEOUT_S
        )
        self._queue = SpanQueue(exporter, self.counts)
        self.provider = TracerProvider(
            sampler=ParentBasedTraceIdRatio(settings.traces_sample_ratio),
            resource=Resource.create(
                {
                    "service.name": process.service,
                    "service.instance.id": process.instance,
                    "service.namespace": process.namespace,
                    "service.version": process.version,
                }
            ),
            shutdown_on_exit=False,
        )
        self.provider.add_span_processor(self._queue)
        self.tracer = self.provider.get_tracer(INSTRUMENTATION, process.version)
        self.propagator = TraceContextTextMapPropagator()

    def end(self) -> None:
        """Send what is left, within `END_TIMEOUT_S`; this waits."""
        self.provider.shutdown()

    async def close(self) -> None:
        """Do the same without holding up the event loop."""
        await asyncio.to_thread(self.end)
