"""Sending one request of OTLP over HTTP to the endpoint of a process's settings; blocks, so it is for threads."""

import urllib.error
import urllib.request
from typing import Final
from urllib.parse import urlsplit

from ottla_core.config import MetricsSettings

TIMEOUT_S: Final = 10.0
DEFAULT_PATH: Final = "/v1/metrics"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Takes a redirect for a refusal: to follow it would send the headers, a token perhaps, to another host."""

    def redirect_request(self, *_: object) -> None:
        """Follow none."""


_opener: Final = urllib.request.build_opener(_NoRedirects)


class OtlpEndpoint:
    """Where metrics are sent to.

    Args:
        settings: with an endpoint.

    Attributes:
        url: with OTLP's path.
    """

    def __init__(self, settings: MetricsSettings) -> None:
        assert settings.metrics_otlp_endpoint is not None
        self.url = _with_path(settings.metrics_otlp_endpoint)
        self._headers = {**settings.otlp_headers, "Content-Type": "application/x-protobuf", "User-Agent": "ottla"}

    def post(self, body: bytes) -> str:
        """Send a request once; return why that has failed, or nothing."""
        try:
            request = urllib.request.Request(self.url, body, self._headers)  # noqa: S310 - http and https only
            with _opener.open(request, timeout=TIMEOUT_S):
                return ""
        except urllib.error.HTTPError as error:
            error.close()
            return f"it answers {error.code} {error.reason}"
        except urllib.error.URLError as error:
            return str(error.reason)
        except OSError as error:
            return str(error) or type(error).__name__
        except Exception as error:  # nonsense in place of a response must not end the thread  # noqa: BLE001
            return type(error).__name__  # its text may show a header


def _with_path(endpoint: str) -> str:
    """Return the URL to send to; one that names only a host gets OTLP's path."""
    return endpoint.rstrip("/") + DEFAULT_PATH if urlsplit(endpoint).path in ("", "/") else endpoint
