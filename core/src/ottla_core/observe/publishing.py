"""Shows the metrics of a process in the ways that its settings ask for."""

from contextlib import ExitStack

from ottla_core.background import start_recurring
from ottla_core.config import MetricsSettings
from ottla_core.observe.loop_delay import LoopDelay
from ottla_core.observe.metrics import NO_LABELS, Metrics
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
    metrics.check_complete()
    with ExitStack() as opened:
        if settings.metrics_listener is not None:
            opened.callback(PrometheusPage(metrics, settings.metrics_listener).close)
            opened.callback(start_recurring("event loop delay", delay.measure).cancel)
        return opened.pop_all()
