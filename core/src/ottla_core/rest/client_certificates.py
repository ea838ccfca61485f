"""Certificates that clients show, from the connection to the request, which uvicorn does not pass on by itself."""

import asyncio
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

EXTENSION: Final = "ottla.certificate"


class CertificateProtocol(H11Protocol):
    """uvicorn's protocol for HTTP/1.1, whose requests have the client's certificate in their scope."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection whose handshake is over, by which the certificate was judged."""
        super().connection_made(transport)
        connection = transport.get_extra_info("ssl_object")
        certificate = None if connection is None else connection.getpeercert(binary_form=True)
        if certificate is not None:
            self.app = _WithCertificate(self.app, certificate)


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
