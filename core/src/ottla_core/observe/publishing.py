"""Shows the metrics of a process in the ways that its settings ask for."""

from collections import Counter
from contextlib import ExitStack

from ottla_core.background import start_recurring
from ottla_core.config import MetricsSettings
from ottla_core.observe.loop_delay import LoopDelay
from ottla_core.observe.metrics import NO_LABELS, Metrics, counted
from ottla_core.observe.process_metrics import show_process
from ottla_core.observe.prometheus_page import PrometheusPage


def publish_metrics(metrics: Metrics, settings: MetricsSettings) -> ExitStack:
    """Begin to show the metrics, all of which are known by now; closing what is returned ends it.

    The event loop must run, as its delay is measured while somebody can ask for it.

    Raises:
        MetricsError: the port of the Prometheus page is in use.
    """
    delay = LoopDelay()
    show_process(metrics)
    metrics.show("ottla_event_loop_delay_seconds", lambda: [(delay.times.reading(), NO_LABELS)])
    pushes = Counter({"done": 0, "failed": 0})
    metrics.show("ottla_metrics_otlp_pushes_total", counted("outcome", pushes))
    metrics.check_complete()
    with ExitStack() as opened:
        if settings.metrics_listener is not None:
            opened.callback(PrometheusPage(metrics, settings.metrics_listener).close)
        if settings.metrics_otlp_endpoint is not None:
            # Imported here because it takes memory that a process without an endpoint need not spend.
            from ottla_core.observe.otlp_push import OtlpPush  # noqa: PLC0415

            opened.callback(OtlpPush(metrics, settings, pushes).close)
        if settings.shows_metrics:
            opened.callback(start_recurring("event loop delay", delay.measure).cancel)
        return opened.pop_all()
