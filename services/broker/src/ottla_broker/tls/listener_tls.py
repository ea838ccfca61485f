"""TLS of a broker's listeners: each has a context, which is made anew when a file that it was made of changes.

Files are looked at every `CHECK_SECONDS`, in a thread. Connections that are open keep what they began with; new ones
get the new certificate. Files that cannot be used leave the former context in place, and are counted until they can.
"""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import structlog

from ottla_broker.tls.connecting import PeerAccess, connect_by_tls
from ottla_broker.tls.contexts import client_context, principal_of, server_context
from ottla_broker.tls.tls_channel import TlsSocket, secured
from ottla_broker.tls.tls_settings import TlsSettings
from ottla_broker.tls.tls_stream import receive_buffer
from ottla_core.errors import ConfigurationError
from ottla_core.principal import Principal
from ottla_core.reloaded_files import CHECK_SECONDS, ReloadedFiles

logger = structlog.get_logger("tls")


class _Contexts(NamedTuple):
    of_server: ssl.SSLContext
    of_client: ssl.SSLContext


class ListenerTls:
    """The TLS of one listener.

    Args:
        name: of the listener.
        settings: of the listener.

    Raises:
        ConfigurationError: a file or text cannot be used.
    """

    def __init__(self, name: str, settings: TlsSettings) -> None:
        self._name = name
        self.settings = settings
        self._buffer = receive_buffer()
        self._files = ReloadedFiles(
            _paths(settings), lambda: _Contexts(server_context(settings), client_context(settings))
        )

    def accept(self, sock: socket.socket) -> TlsSocket:
        """Return TLS over a connection of a client that was just accepted.

        Raises:
            OSError: the client has gone since.
        """
        return secured(self._files.contents.of_server, sock, self._buffer, server_side=True)

    @property
    def peer_context(self) -> ssl.SSLContext:
        """For new connections to the same listener of other brokers."""
        return self._files.contents.of_client

    @property
    def is_outdated(self) -> bool:
        """Whether the files have changed and cannot be used."""
        return self._files.are_outdated

    def look(self) -> None:
        """Make contexts of the files if they have changed; blocks meanwhile."""
        try:
            is_new = self._files.look()
        except ConfigurationError as error:
            logger.error("the listener goes on with its former certificate", listener=self._name, problem=str(error))
            return
        if is_new:
            logger.info("the listener has a new certificate", listener=self._name)

    def principal(self, sock: TlsSocket) -> Principal | None:
        """Return who the client is by its certificate, None where no rule names it; ValueError: it is malformed."""
        return principal_of(sock.getpeercert(binary_form=True), self.settings.mapping_rules)


class Certificates:
    """The TLS of all listeners that have it.

    Args:
        settings: by the listener's name.

    Raises:
        ConfigurationError: a file or text cannot be used.
    """

    def __init__(self, settings: Mapping[str, TlsSettings]) -> None:
        self._listeners = {name: self._made(name, each) for name, each in settings.items()}

    def __getitem__(self, listener: str) -> ListenerTls:
        return self._listeners[listener]

    def __contains__(self, listener: str) -> bool:
        return listener in self._listeners

    def peer_access(self, listener: str) -> PeerAccess:
        """Return how to reach other brokers by a listener, of which they have the same."""
        if listener not in self._listeners:
            return PeerAccess()
        tls = self._listeners[listener]
        return PeerAccess(connect_by_tls(lambda: tls.peer_context), lambda: tls.peer_context)

    @property
    def outdated(self) -> int:
        """How many listeners go on with a former certificate, as the files cannot be used."""
        return sum(each.is_outdated for each in self._listeners.values())

    async def keep(self) -> None:
        """Look at the files now and then; does not return."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for listener in self._listeners.values():
                await asyncio.to_thread(listener.look)

    @staticmethod
    def _made(name: str, settings: TlsSettings) -> ListenerTls:
        try:
            return ListenerTls(name, settings)
        except ConfigurationError as error:
            raise ConfigurationError(f"listener {name}: {error}") from None


def _paths(settings: TlsSettings) -> list[Path]:
    stores = [settings.own, *([settings.trusted] if settings.trusted is not None else [])]
    return [Path(store.location) for store in stores if store.location]
