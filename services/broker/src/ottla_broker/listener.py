"""Listening sockets: accepts clients' connections within the configured limits and looks after them.

All connections of the broker share one receive buffer, one pool of larger buffers and one budget.
"""

import asyncio
import contextlib
import errno
import socket
from collections import Counter

import structlog

from ottla_broker.config import BrokerConfig
from ottla_broker.connection import Connection
from ottla_broker.dispatch import Dispatcher
from ottla_broker.receive_buffer import BufferPool, RequestBudget
from ottla_core.config import HostPort
from ottla_core.errors import OttlaError

SHARED_BUFFER_BYTES = 256 * 1024
BACKLOG = 1024
ACCEPTED_AT_ONCE_MAX = 64
ACCEPT_PAUSE_SECONDS = 1.0
"""How long accepting rests when the process has no file descriptors left."""
CHECKS_PER_TIMEOUT = 10
REQUEST_STALL_SECONDS = 30.0
"""How long a request that has begun may bring no byte, before its connection is closed and its memory is freed."""

logger = structlog.get_logger("listener")


class ListenerError(OttlaError):
    """A listener's address cannot be bound."""


def bind(host: str, port: int) -> socket.socket:
    """Bind a TCP socket; nobody can connect until it listens.

    Raises:
        ListenerError: the port is in use or the address is not this host's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setblocking(False)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        reason = "the port is in use by another process" if error.errno == errno.EADDRINUSE else error.strerror
        raise ListenerError(f"cannot listen on {HostPort(host, port)}: {reason}") from None
    return sock


class Listener:
    """Accepts connections on bound sockets and owns them until they are closed.

    Attributes:
        connections: those that are open.
        handle: what handles a frame.
        accepted: how many were accepted since the start.
        refused: how many were closed at once because of a limit.
    """

    def __init__(
        self, config: BrokerConfig, sockets: list[tuple[str, socket.socket]], dispatcher: Dispatcher
    ) -> None:
        self._config = config
        self._sockets = sockets
        self.handle = dispatcher.handle
        self._loop = asyncio.get_running_loop()
        self.shared_buffer = memoryview(bytearray(SHARED_BUFFER_BYTES))
        self.pool = BufferPool()
        self.budget = RequestBudget(config.queued_max_request_bytes)
        self.request_bytes_max = config.socket_request_max_bytes
        self.connections: set[Connection] = set()
        self.accepted = 0
        self.refused = 0
        self._by_address: Counter[str] = Counter()
        self._wanting_budget: set[Connection] = set()
        self._idle_check: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Listen."""
        for name, sock in self._sockets:
            sock.listen(BACKLOG)
            self._loop.add_reader(sock.fileno(), self._accept, name, sock)
        self._idle_check = asyncio.create_task(self._close_idle(), name="idle connections")

    async def close(self) -> None:
        """Stop listening and close every connection."""
        for _, sock in self._sockets:
            self._loop.remove_reader(sock.fileno())
            sock.close()
        if self._idle_check is not None:
            self._idle_check.cancel()
            await asyncio.gather(self._idle_check, return_exceptions=True)
        for connection in tuple(self.connections):
            connection.close()

    # What connections ask of their owner

    def wait_for_budget(self, connection: Connection) -> None:
        """Have the connection resume when frames that are arriving now have been handled."""
        self._wanting_budget.add(connection)

    def budget_released(self) -> None:
        """Let the connections that wait for the budget try again."""
        waiting, self._wanting_budget = self._wanting_budget, set()
        for connection in waiting:
            self._loop.call_soon(connection.resume)

    def on_closed(self, connection: Connection) -> None:
        """Forget a connection."""
        self.connections.discard(connection)
        self._wanting_budget.discard(connection)
        self._by_address[connection.address] -= 1
        if not self._by_address[connection.address]:
            del self._by_address[connection.address]

    # Accepting

    def _accept(self, listener_name: str, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE_MAX):
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                logger.error("cannot accept connections", error=str(error))
                self._loop.remove_reader(listening.fileno())
                self._loop.call_later(ACCEPT_PAUSE_SECONDS, self._accept_again, listener_name, listening)
                return
            self._take(listener_name, sock, address[0], address[1])

    def _accept_again(self, listener_name: str, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._loop.add_reader(listening.fileno(), self._accept, listener_name, listening)

    def _take(self, listener_name: str, sock: socket.socket, host: str, port: int) -> None:
        limit = ""
        if len(self.connections) >= self._config.max_connections:
            limit = "max.connections"
        elif self._by_address[host] >= self._config.max_connections_per_ip:
            limit = "max.connections.per.ip"
        if limit:
            self.refused += 1
            logger.warning("connection refused", peer=f"{host}:{port}", limit=limit, refused=self.refused)
            sock.close()
            return
        sock.setblocking(False)
        with contextlib.suppress(OSError):  # the client may be gone already
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.accepted += 1
        self._by_address[host] += 1
        self.connections.add(Connection(sock, (host, port), listener_name, self, self._loop))

    async def _close_idle(self) -> None:
        idle_s = self._config.connections_max_idle_ms / 1000
        while True:
            await asyncio.sleep(min(idle_s, REQUEST_STALL_SECONDS) / CHECKS_PER_TIMEOUT)
            now = self._loop.time()
            for connection in tuple(self.connections):
                silent_s = now - connection.last_active
                if connection.is_in_mid_request and silent_s > REQUEST_STALL_SECONDS:
                    connection.close(f"a request stopped arriving {silent_s:.0f} s ago")
                elif connection.is_idle and silent_s > idle_s:
                    connection.close()
