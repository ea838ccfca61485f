"""Connections to those addresses only that the worker permits.

A host's name is resolved here, each of its addresses is judged, and the connection is made to one that was judged:
nobody resolves the name once more between the judgement and the connection. TLS still checks the certificate for the
name, which httpcore keeps apart from the address.
"""

import socket
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

from ottla_sdk import FatalError
from ottla_sdk.network_policy import require_permitted


class PermittedBackend(httpcore.SyncBackend):
    """Makes httpcore's connections, to the server or to a proxy."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address of a host that answers.

        Raises:
            AddressRefused: one of its addresses is not permitted.
            httpcore.ConnectError: it has no address, or none answers.
        """
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        for address in addresses:
            require_permitted(host, address.partition("%")[0])
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in addresses:
            try:
                return super().connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


def permitted_transport(**options: Any) -> httpx.HTTPTransport:
    """Return a transport of httpx, made with these options, whose connections are judged.

    httpx has no option for this, so its pool is given the backend before it makes the first connection. Another
    version may keep the backend elsewhere: then nothing may be connected, rather than everything unjudged.

    Raises:
        FatalError: it does.
    """
    transport = httpx.HTTPTransport(**options)
    pool = transport._pool  # noqa: SLF001 - there is no public way, see above
    if not hasattr(pool, "_network_backend"):
        raise FatalError("this version of httpcore makes connections that cannot be judged; install the pinned one")
    pool._network_backend = PermittedBackend()  # noqa: SLF001 - likewise
    return transport
