"""Traces are off unless asked for; spans wait in a bounded queue, and what becomes of them is counted."""

import threading
import time
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from ottla_core.config import validated
from ottla_core.errors import ConfigurationError
from ottla_core.observe import tracing as tracing_module
from ottla_core.observe.traces import SpanCounts, TracedProcess, begin_traces
from ottla_core.observe.tracing import SpanQueue
from ottla_core.rpc.channel import ChannelPool
from ottla_core.trace_settings import TraceSettings
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports
from tests.support.servers.span_receiver import SpanReceiver

PROCESS = TracedProcess("ottla-test", "1", "test", "0")


def settings(**written: str) -> TraceSettings:
    return validated(TraceSettings, {key.replace("_", "."): value for key, value in written.items()}, {})


def test_without_an_endpoint_nothing_makes_spans() -> None:
    assert begin_traces(settings(), PROCESS) is None
    assert ChannelPool()._interceptors("localhost:1") == ()


def test_an_endpoint_without_a_path_means_that_of_traces() -> None:
    assert settings(traces_otlp_endpoint="http://collector:4318/").traces_url == "http://collector:4318/v1/traces"
    assert settings(traces_otlp_endpoint="https://tempo/otlp/x").traces_url == "https://tempo/otlp/x"


def test_bad_settings_are_refused_by_name_and_headers_are_not_told() -> None:
    with pytest.raises(ConfigurationError) as refused:
        settings(traces_otlp_endpoint="collector:4318", traces_sample_ratio="2")
    assert "traces.otlp.endpoint: write it as http://HOST:PORT" in str(refused.value)
    assert "traces.sample.ratio" in str(refused.value)


def test_headers_and_logins_of_receivers_are_secrets():
    assert TraceSettings.is_secret("traces.otlp.headers")
    assert "abc" not in repr(settings(traces_otlp_headers="authorization=abc"))
    with pytest.raises(ConfigurationError, match="must hold no login"):
        settings(traces_otlp_endpoint="http://me:secret@collector:4318")


def test_headers_are_sent_and_spans_counted() -> None:
    with SpanReceiver() as receiver:
        tracing = begin_traces(
            settings(
                traces_otlp_endpoint=receiver.url,
                traces_otlp_headers="authorization=Basic%20abc, x-tenant=one",
                traces_sample_ratio="1",
            ),
            PROCESS,
        )
        assert tracing is not None
        tracing.tracer.start_span("some work").end()
        tracing.end()
        assert [(each.service, each.span.name) for each in receiver.spans] == [("ottla-test", "some work")]
        assert receiver.headers["authorization"] == "Basic abc"
        assert receiver.headers["x-tenant"] == "one"
        assert tracing.counts.by_outcome() == {"sent": 1, "dropped": 0, "undelivered": 0}


def test_with_a_ratio_of_nought_nothing_is_recorded() -> None:
    with SpanReceiver() as receiver:
        tracing = begin_traces(settings(traces_otlp_endpoint=receiver.url, traces_sample_ratio="0"), PROCESS)
        assert tracing is not None
        tracing.tracer.start_span("some work").end()
        tracing.end()
        assert receiver.spans == []
        assert tracing.counts == SpanCounts()


def test_a_receiver_that_is_away_is_counted_and_does_not_hold_up_the_end() -> None:
    (port,) = free_ports(1)
    endpoint = f"http://{LOOPBACK}:{port}"
    tracing = begin_traces(settings(traces_otlp_endpoint=endpoint, traces_sample_ratio="1"), PROCESS)
    assert tracing is not None
    tracing.tracer.start_span("some work").end()
    began_s = time.monotonic()
    tracing.end()
    assert time.monotonic() - began_s < tracing_module.END_TIMEOUT_S + 1
    eventually(lambda: tracing.counts.undelivered == 1, "the span is counted as undelivered")


class HeldExporter(SpanExporter):
    """Sends nothing before it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.entered = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.entered.set()
        self.released.wait(10)
        return SpanExportResult.SUCCESS


def test_a_full_queue_drops_spans_and_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing_module, "QUEUE_SPANS_MAX", 3)
    monkeypatch.setattr(tracing_module, "BATCH_SPANS_MAX", 1)
    exporter, counts = HeldExporter(), SpanCounts()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SpanQueue(exporter, counts))
    tracer = provider.get_tracer("test")
    tracer.start_span("first").end()
    assert exporter.entered.wait(10)
    for _ in range(5):
        tracer.start_span("next").end()
    assert counts.dropped == 2
    exporter.released.set()
    provider.shutdown()
    assert counts.by_outcome() == {"sent": 4, "dropped": 2, "undelivered": 0}
