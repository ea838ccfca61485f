"""Pushes the metrics of a process by OTLP over HTTP, every so often, in a thread of its own.

One push is under way at a time, and none is kept for later: values are cumulative, so the next one says what a lost
one would have. Pushes that fail are counted, which the metrics show, and the log names the reason when it changes.
"""

import threading
import time
from collections import Counter
from typing import Final

import structlog

from ottla_core.background import start_thread
from ottla_core.config import MetricsSettings
from ottla_core.observe.metrics import Metrics
from ottla_core.observe.otlp_metrics import encode_metrics
from ottla_core.observe.otlp_post import OtlpEndpoint

DONE: Final = "done"
FAILED: Final = "failed"

logger = structlog.get_logger("metrics")


class OtlpPush:
    """Pushes until it is closed.

    Args:
        metrics: of this process.
        settings: with an endpoint.
        pushes: counts pushes by their outcome, `DONE` or `FAILED`.
    """

    def __init__(self, metrics: Metrics, settings: MetricsSettings, pushes: Counter[str]) -> None:
        self._metrics = metrics
        self._endpoint = OtlpEndpoint(settings)
        self._interval_s = settings.metrics_otlp_interval_ms / 1000
        self._pushes = pushes
        self._began_ns = time.time_ns()
        self._is_closed = threading.Event()
        self._reason = ""
        self._thread = start_thread("otlp push", self._push_until_closed)

    def close(self) -> None:
        """Push no more; one that is under way is not waited for."""
        self._is_closed.set()

    def _push_until_closed(self) -> None:
        while not self._is_closed.wait(self._interval_s):
            reason = self._push()
            if self._is_closed.is_set():
                return
            self._pushes[FAILED if reason else DONE] += 1
            if reason != self._reason:
                self._reason = reason
                if reason:
                    logger.warning("metrics cannot be pushed", endpoint=self._endpoint.url, reason=reason)
                else:
                    logger.info("metrics are pushed again", endpoint=self._endpoint.url)

    def _push(self) -> str:
        """Push once; return why that has failed, or nothing."""
        try:
            body = encode_metrics(self._metrics, self._began_ns, time.time_ns())
        except Exception as error:  # a defect must not end the pushes  # noqa: BLE001
            return type(error).__name__
        return self._endpoint.post(body)
