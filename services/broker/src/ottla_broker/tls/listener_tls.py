"""TLS of a broker's listeners: each has a context, which is made anew when a file that it was made of changes.

Files are looked at every `CHECK_SECONDS`, in a thread. Connections that are open keep what they began with; new ones
get the new certificate. Files that cannot be used, as when only one of two has been replaced yet, leave the former
context in place: that is logged once for each state of the files, and counted until it is over.
"""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from ottla_broker.tls.connecting import PeerAccess, connect_by_tls
from ottla_broker.tls.contexts import client_context, principal_of, server_context
from ottla_broker.tls.tls_settings import TlsSettings
from ottla_core.errors import ConfigurationError
from ottla_core.principal import Principal

CHECK_SECONDS: Final = 5.0

logger = structlog.get_logger("tls")

FileState = tuple[tuple[int, int, int], ...]


@dataclass(slots=True)
class ListenerTls:
    """The TLS of one listener.

    Attributes:
        settings: of the listener.
        context: for new connections of clients.
        peer_context: for new connections to the same listener of other brokers.
        files: the state of the files that the context was made of.
        refused: the state of files that could not be used; None: there is none.
    """

    settings: TlsSettings
    context: ssl.SSLContext
    peer_context: ssl.SSLContext
    files: FileState
    refused: FileState | None = None

    def principal(self, sock: ssl.SSLSocket) -> Principal | None:
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
        return sum(each.refused is not None for each in self._listeners.values())

    async def keep(self) -> None:
        """Look at the files now and then; does not return."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for name, listener in self._listeners.items():
                await asyncio.to_thread(self._renew, name, listener)

    def _renew(self, name: str, listener: ListenerTls) -> None:
        files = _state_of_files(listener.settings)
        if files == listener.files:
            listener.refused = None
            return
        if files == listener.refused:
            return
        try:
            context, peer_context = server_context(listener.settings), client_context(listener.settings)
        except ConfigurationError as error:
            listener.refused = files
            logger.error("the listener goes on with its former certificate", listener=name, problem=str(error))
            return
        if _state_of_files(listener.settings) != files:
            return  # it was made while they changed; the next look makes it of what is there then
        listener.context, listener.peer_context = context, peer_context
        listener.files, listener.refused = files, None
        logger.info("the listener has a new certificate", listener=name)

    @staticmethod
    def _made(name: str, settings: TlsSettings) -> ListenerTls:
        files = _state_of_files(settings)
        try:
            return ListenerTls(settings, server_context(settings), client_context(settings), files)
        except ConfigurationError as error:
            raise ConfigurationError(f"listener {name}: {error}") from None


def _state_of_files(settings: TlsSettings) -> FileState:
    """Return what tells that a file is another one; one that cannot be looked at counts as another one."""
    stores = [settings.own, *([settings.trusted] if settings.trusted is not None else [])]
    states = []
    for store in stores:
        if store.location:
            try:
                found = Path(store.location).stat()
                states.append((found.st_ino, found.st_mtime_ns, found.st_size))
            except OSError as error:
                states.append((-1, error.errno or 0, 0))
    return tuple(states)
