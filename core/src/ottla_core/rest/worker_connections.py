"""HTTP connections of a worker to the others of its group."""

import ssl
from typing import Final

import httpx

CONNECTIONS_MAX: Final = 50


class WorkerConnections:
    """Connections to other workers; there are none before the first question.

    Args:
        tls: how workers with an https URL are trusted; by default as the system's authorities say.
        timeout: how long to wait, in seconds.
    """

    def __init__(self, tls: ssl.SSLContext | None, timeout: httpx.Timeout) -> None:
        self._tls = tls
        self._timeout = timeout
        self._client: httpx.AsyncClient | None = None

    def client(self) -> httpx.AsyncClient:
        """Return what asks."""
        if self._client is None:
            self._client = httpx.AsyncClient(
                timeout=self._timeout,
                limits=httpx.Limits(max_connections=CONNECTIONS_MAX),
                verify=self._tls or True,
                trust_env=False,
                follow_redirects=False,
            )
        return self._client

    async def close(self) -> None:
        """Close them."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None
