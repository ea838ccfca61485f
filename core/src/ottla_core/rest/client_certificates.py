"""The protocol of REST listeners: uvicorn's for HTTP/1.1, with what it leaves out.

Requests have the certificate of their connection's client in their scope. A connection on which no request's head
comes in time is closed: uvicorn waits for ever, and the connections that it takes are limited.
"""

import asyncio
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

EXTENSION: Final = "ottla.certificate"
HEAD_WITHIN_S: Final = 30.0
"""Looked at twice in this time."""


class CertificateProtocol(H11Protocol):
    """uvicorn's protocol for HTTP/1.1."""

    _looking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection whose handshake is over, by which the certificate was judged."""
        super().connection_made(transport)
        connection = transport.get_extra_info("ssl_object")
        certificate = None if connection is None else connection.getpeercert(binary_form=True)
        if certificate is not None:
            self.app = _WithCertificate(self.app, certificate)
        self._look(awaited_after=self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)

    def _look(self, awaited_after: object) -> None:
        """Close the connection if it still waits for the head of the same request as when it was looked at before.

        Args:
            awaited_after: the request before that one; this protocol if none was awaited.
        """
        has_begun = self.cycle is not None and not self.cycle.response_complete
        is_idle = self.timeout_keep_alive_task is not None  # uvicorn closes it soon
        if not has_begun and not is_idle and awaited_after is self.cycle:
            self.transport.abort()
            return
        awaited = self if has_begun or is_idle else self.cycle
        self._looking = self.loop.call_later(HEAD_WITHIN_S / 2, self._look, awaited)


class _WithCertificate:
    def __init__(self, app: ASGIApp, certificate: bytes) -> None:
        self._app = app
        self._certificate = certificate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app({**scope, EXTENSION: self._certificate}, receive, send)


def certificate_of(scope: Scope) -> bytes | None:
    """Return the certificate that the client of a request has shown, in DER, None if there is none."""
    certificate = scope.get(EXTENSION)
    assert certificate is None or isinstance(certificate, bytes)
    return certificate
