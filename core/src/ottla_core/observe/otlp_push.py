"""Pushes the metrics of a process by OTLP over HTTP, every so often, in a thread of its own.

One push is under way at a time, and none is kept for later: values are cumulative, so the next one says what a lost
one would have. Pushes that fail are counted, which the metrics show, and the log names the reason when it changes.
"""

import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from typing import Final
from urllib.parse import urlsplit

import structlog

from ottla_core.background import start_thread
from ottla_core.config import MetricsSettings
from ottla_core.observe.metrics import Metrics
from ottla_core.observe.otlp_encoding import encode_metrics

TIMEOUT_S: Final = 10.0
DEFAULT_PATH: Final = "/v1/metrics"
DONE: Final = "done"
FAILED: Final = "failed"

logger = structlog.get_logger("metrics")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Takes a redirect for a refusal: to follow it would send the headers, a token perhaps, to another host."""

    def redirect_request(self, *_: object) -> None:
        """Follow none."""


_opener: Final = urllib.request.build_opener(_NoRedirects)


class OtlpPush:
    """Pushes until it is closed.

    Args:
        metrics: of this process.
        settings: with an endpoint.
        pushes: counts pushes by their outcome, `DONE` or `FAILED`.
    """

    def __init__(self, metrics: Metrics, settings: MetricsSettings, pushes: Counter[str]) -> None:
        assert settings.metrics_otlp_endpoint is not None
        self._metrics = metrics
        self._url = _with_path(settings.metrics_otlp_endpoint)
        self._headers = {**settings.otlp_headers, "Content-Type": "application/x-protobuf", "User-Agent": "ottla"}
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
                    logger.warning("metrics cannot be pushed", endpoint=self._url, reason=reason)
                else:
                    logger.info("metrics are pushed again", endpoint=self._url)

    def _push(self) -> str:
        """Push once; return why that has failed, or nothing."""
        try:
            body = encode_metrics(self._metrics, self._began_ns, time.time_ns())
            request = urllib.request.Request(self._url, body, self._headers)  # noqa: S310 - http and https only
            with _opener.open(request, timeout=TIMEOUT_S):
                return ""
        except urllib.error.HTTPError as error:
            error.close()
            return f"it answers {error.code} {error.reason}"
        except urllib.error.URLError as error:
            return str(error.reason)
        except OSError as error:
            return str(error) or type(error).__name__
        except Exception as error:  # nonsense in place of a response must not end the pushes  # noqa: BLE001
            return type(error).__name__  # its text may show a header


def _with_path(endpoint: str) -> str:
    """Return the URL to push to; one that names only a host gets OTLP's path."""
    return endpoint.rstrip("/") + DEFAULT_PATH if urlsplit(endpoint).path in ("", "/") else endpoint
