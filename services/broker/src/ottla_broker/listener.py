"""Listening sockets: accepts clients' connections within the configured limits and looks after them.

All connections of the broker share one receive buffer, one pool of larger buffers and one budget.
"""

import asyncio
import contextlib
import errno
import socket
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import structlog

from ottla_broker.channel import PlainChannel
from ottla_broker.client_plugins.principals import Principals, UnknownClient
from ottla_broker.config import BrokerConfig
from ottla_broker.connection import Connection
from ottla_broker.dispatch import Dispatcher
from ottla_broker.quotas.client_quotas import ThrottleCount
from ottla_broker.quotas.connection_limits import ConnectionCounts
from ottla_broker.quotas.connection_rates import ConnectionRates
from ottla_broker.quotas.sampled_rate import RateWindow
from ottla_broker.receive_buffer import BufferPool, RequestBudget
from ottla_broker.sasl.exchange import Accepted
from ottla_broker.sasl_gate import SaslGate
from ottla_broker.tls.handshake import Handshake, why_failed
from ottla_broker.tls.tls_channel import TlsSocket, channel_of
from ottla_core.background import start_recurring
from ottla_core.clock import SystemClock
from ottla_core.config import HostPort
from ottla_core.errors import OttlaError
from ottla_core.failure_log import FailureLog
from ottla_core.plain_address import plain_address
from ottla_core.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from ottla_broker.sasl.listener_sasl import ListenerSasl
    from ottla_broker.tls.listener_tls import Certificates, ListenerTls

SHARED_BUFFER_BYTES = 256 * 1024
BACKLOG = 1024
ACCEPTED_AT_ONCE_MAX = 64
ACCEPT_PAUSE_SECONDS = 1.0
"""How long accepting rests when the process has no file descriptors left."""
CHECKS_PER_TIMEOUT = 10
REQUEST_STALL_SECONDS = 30.0
"""How long a request that has begun may bring no byte, before its connection is closed and its memory is freed."""
REQUEST_BYTES_PER_SECOND_MIN = 4 * 1024
"""How fast a large request has to arrive, taken over `REQUEST_STALL_SECONDS`."""
STARVED_WINDOW_SECONDS = 5.0
STARVED_BYTES_PER_SECOND_MIN = 256 * 1024
"""How fast it has to arrive, over that window, while others wait for the memory that such requests hold."""
UNREAD_BYTES_PER_SECOND_MIN = 4 * 1024
"""How fast a peer has to read what it asked for, over `connections.max.idle.ms`; deleted segments wait for it."""
UNSENT_BYTES_OVERALL_MAX = 256 * 1024 * 1024
"""What all peers together may leave unread, of responses that are in memory; those that leave most are given up."""

MAKES_WAY = "it makes way for a broker, as there are as many connections as there may be"
HELD_BACK_MAX = 1000
"""Connections that are held and not served, as their addresses make too many."""

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
        rates: of connections that come.
        throttled: how often an address was held back, and for how long.
        failed_handshakes: how many connections to listeners with TLS came to nothing.
        unsent_bytes: of responses in memory that peers do not read.
    """

    def __init__(
        self,
        config: BrokerConfig,
        sockets: list[tuple[str, socket.socket]],
        dispatcher: Dispatcher,
        *,
        files_for_connections: int = sys.maxsize,
        certificates: "Certificates | None" = None,
        sasl: "Mapping[str, ListenerSasl] | None" = None,
        principals: Principals | None = None,
        throttled: ThrottleCount | None = None,
    ) -> None:
        self._config = config
        self._sockets = sockets
        self._files_for_connections = files_for_connections
        self.handle = dispatcher.handle
        self._loop = asyncio.get_running_loop()
        self.shared_buffer = memoryview(bytearray(SHARED_BUFFER_BYTES))
        self.pool = BufferPool()
        self.budget = RequestBudget(config.queued_max_request_bytes)
        self.unsent_bytes = 0
        self._is_shedding = False
        self._unread_since: dict[Connection, tuple[float, int]] = {}
        self.request_bytes_max = config.socket_request_max_bytes
        self.connections: set[Connection] = set()
        self.accepted = 0
        self.refused = 0
        self.failed_handshakes = 0
        self._certificates = certificates
        self._sasl = sasl or {}
        self._principals = principals or Principals()
        self._protocols = dict(config.listener_security_protocol_map)
        self._clock = SystemClock()
        self._handshakes: dict[Handshake, str] = {}  # with the listener's name; the oldest comes first
        self._held_back: set[socket.socket] = set()
        self._limits = config.connection_limits(files_for_connections)
        self._counts = ConnectionCounts()
        self.rates = ConnectionRates(RateWindow(config.quota_window_num, config.quota_window_size_seconds * 1000))
        self.throttled = throttled or ThrottleCount()
        self._refusals = FailureLog()
        self._handshake_failures = FailureLog()
        self._wanting_budget: set[Connection] = set()
        self._idle_check: asyncio.Task[None] | None = None

    def reconfigure(self, config: BrokerConfig) -> None:
        """Go by other limits of connections from now on; those that are open stay."""
        self._config = config
        self._limits = config.connection_limits(self._files_for_connections)

    def start(self) -> None:
        """Listen."""
        for name, sock in self._sockets:
            sock.listen(BACKLOG)
            self._loop.add_reader(sock.fileno(), self._accept, name, sock)
        self._idle_check = start_recurring("idle connections", self._close_idle)

    async def close(self) -> None:
        """Stop listening and close every connection."""
        for _, sock in self._sockets:
            self._loop.remove_reader(sock.fileno())
            sock.close()
        if self._idle_check is not None:
            self._idle_check.cancel()
            await asyncio.gather(self._idle_check, return_exceptions=True)
        for handshake in tuple(self._handshakes):
            handshake.abandon()
        for connection in tuple(self.connections):
            connection.close()
        for sock in tuple(self._held_back):
            self._end_hold(sock)

    @property
    def outdated_certificates(self) -> int:
        """How many listeners go on with a former certificate."""
        return 0 if self._certificates is None else self._certificates.outdated

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
        self._unread_since.pop(connection, None)
        self._counts.remove(connection.listener_name, connection.address)

    def unsent_changed(self, difference: int) -> None:
        """Keep account of what peers leave unread, and give up some of them if it is too much."""
        self.unsent_bytes += difference
        if self.unsent_bytes > UNSENT_BYTES_OVERALL_MAX and not self._is_shedding:
            self._is_shedding = True
            self._loop.call_soon(self._shed)  # not from within the connection that has more by now

    def _shed(self) -> None:
        self._is_shedding = False
        by_unsent = sorted(self.connections, key=lambda connection: connection.unsent_bytes)
        while self.unsent_bytes > UNSENT_BYTES_OVERALL_MAX and by_unsent:
            worst = by_unsent.pop()
            worst.close(f"{worst.unsent_bytes} bytes of responses are not read, and memory for them runs out")

    # Accepting

    def _log_refusal(self, event: str, **what: object) -> None:
        """Log that a client was refused, unless that happens too often."""
        self._log_some(self._refusals, event, what)

    def _log_some(self, failures: FailureLog, event: str, what: Mapping[str, object]) -> None:
        """Log an event of a kind that clients can cause at will; each kind has a limit of its own."""
        left_out = failures.note(self._loop.time())
        if left_out is not None:
            more = {"left_out": left_out} if left_out else {}
            logger.info(event, **what, **more)

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
            counts = self._take(listener_name, sock, plain_address(address[0]), address[1])
            if counts and (pause_ms := self.rates.accepted(self._limits, listener_name, self._now_ms())):
                self._loop.remove_reader(listening.fileno())
                self._loop.call_later(pause_ms / 1000, self._accept_again, listener_name, listening)
                return

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _accept_again(self, listener_name: str, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._loop.add_reader(listening.fileno(), self._accept, listener_name, listening)

    def _take(self, listener_name: str, sock: socket.socket, host: str, port: int) -> bool:
        """Serve a connection or refuse it; return whether it counts in rates."""
        if limit := self._counts.why_refused(self._limits, listener_name, host):
            self._refuse(sock, f"{host}:{port}", limit)
            return True
        if self.rates.by_address and (excess_ms := self.rates.excess_ms(host, self._now_ms())):
            self._hold_back(sock, excess_ms, f"{host}:{port}")
            return False
        if listener_name == self._limits.protected and self._counts.needs_room(self._limits):
            has_room = self._make_room() or self._counts.total < self._limits.files
            if not has_room:  # all others are brokers' as well
                self._refuse(sock, f"{host}:{port}", "open files (ulimit -n)")
                return True
        sock.setblocking(False)
        with contextlib.suppress(OSError):  # the client may be gone already
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.accepted += 1
        self._counts.add(listener_name, host)
        if self._certificates is not None and listener_name in self._certificates:
            self._begin_handshake(self._certificates[listener_name], sock, (host, port), listener_name)
        else:
            self._add_plain(sock, (host, port), listener_name)
        return True

    def _refuse(self, sock: socket.socket, peer: str, limit: str) -> None:
        self.refused += 1
        self._log_refusal("connection refused", peer=peer, limit=limit, refused=self.refused)
        sock.close()

    def _make_room(self) -> bool:
        """Close a connection that is held back, or of other listeners the one on which nothing has moved for longest.

        A handshake counts from its begin, however often its client sends a byte.

        Returns:
            Whether there was one.
        """
        protected = self._limits.protected
        if self._held_back:
            self._end_hold(next(iter(self._held_back)))
            return True
        others = (each for each in self.connections if each.listener_name != protected)
        longest = min(others, key=lambda each: each.last_active, default=None)
        oldest = next((each for each, listener in self._handshakes.items() if listener != protected), None)
        if oldest is not None and (longest is None or oldest.began_s < longest.last_active):
            oldest.fail(MAKES_WAY)
            return True
        if longest is None:
            return False
        longest.close(MAKES_WAY)
        return True

    def _add_plain(self, sock: socket.socket, peer: tuple[str, int], listener: str) -> None:
        try:
            principal = ANONYMOUS if listener in self._sasl else self._named(ANONYMOUS, peer[0], listener)
        except UnknownClient as unknown:
            sock.close()
            self._counts.remove(listener, peer[0])
            self.refused += 1
            self._log_refusal("connection refused", peer=f"{peer[0]}:{peer[1]}", reason=str(unknown))
            return
        self._add(Connection(PlainChannel(sock), peer, listener, self, self._loop, principal=principal))

    def _named(
        self,
        proved: Principal | None,
        address: str,
        listener: str,
        certificate: Callable[[], bytes | None] = lambda: None,
    ) -> Principal:
        protocol = self._protocols[listener]
        return self._principals.name(
            proved, address=address, listener=listener, protocol=protocol, certificate=certificate
        )

    def _hold_back(self, sock: socket.socket, excess_ms: int, peer: str) -> None:
        """Close a connection after a while, from an address that makes too many; at once if many wait for that."""
        self.refused += 1
        self.throttled.add(excess_ms)
        logger.debug("connection refused", peer=peer, limit="connection_creation_rate", refused=self.refused)
        if len(self._held_back) >= HELD_BACK_MAX:
            sock.close()
            return
        self._held_back.add(sock)
        self._counts.total += 1
        self._loop.call_later(excess_ms / 1000, self._end_hold, sock)

    def _end_hold(self, sock: socket.socket) -> None:
        if sock in self._held_back:
            self._held_back.discard(sock)
            self._counts.total -= 1
        sock.close()

    def _add(self, connection: Connection, certificate: Callable[[], bytes | None] = lambda: None) -> None:
        self.connections.add(connection)
        listener = connection.listener_name
        sasl = self._sasl.get(listener)
        if sasl is None:
            return

        def named(accepted: Accepted, mechanism: str) -> Principal:
            return self._principals.name(
                accepted.principal,
                address=connection.address,
                listener=listener,
                protocol=self._protocols[listener],
                mechanism=mechanism,
                is_by_token=accepted.by_token,
                certificate=certificate,
            )

        connection.gate = SaslGate(connection, sasl, self.handle, self._clock, named)

    def _begin_handshake(self, tls: "ListenerTls", sock: socket.socket, peer: tuple[str, int], listener: str) -> None:
        def done(secured: TlsSocket) -> None:
            self._handshakes.pop(handshake, None)

            def certificate() -> bytes | None:
                return secured.getpeercert(binary_form=True)

            try:
                # Where clients log in, a certificate lets them connect, and a builder of principals may look at it.
                has_logins = listener in self._sasl
                principal = (
                    ANONYMOUS if has_logins else self._named(tls.principal(secured), peer[0], listener, certificate)
                )
            except ValueError as error:  # OpenSSL accepts some certificates that are not well-formed
                secured.close()
                refused(f"the client's certificate cannot be read: {error}")
                return
            except UnknownClient as unknown:
                secured.close()
                refused(str(unknown))
                return
            connection = Connection(channel_of(secured), peer, listener, self, self._loop, principal=principal)
            self._add(connection, certificate)
            connection.look_again()  # what came with the end of the handshake is not with the socket any more

        def failed(reason: str) -> None:
            self._handshakes.pop(handshake, None)
            refused(reason)

        def refused(reason: str) -> None:
            self._counts.remove(listener, peer[0])
            self.failed_handshakes += 1
            what = {"peer": f"{peer[0]}:{peer[1]}", "listener": listener, "reason": reason}
            self._log_some(self._handshake_failures, "TLS handshake failed", what)

        try:
            handshake = Handshake(tls.accept(sock), self._loop, done, failed)
        except OSError as error:  # the client has gone since it was accepted
            sock.close()
            refused(why_failed(error))
            return
        self._handshakes[handshake] = listener

    async def _close_idle(self) -> None:
        idle_s = self._config.connections_max_idle_ms / 1000
        while True:
            await asyncio.sleep(min(idle_s, REQUEST_STALL_SECONDS) / CHECKS_PER_TIMEOUT)
            now = self._loop.time()
            for connection in tuple(self.connections):
                self._close_if_idle(connection, now, idle_s)

    def _close_if_idle(self, connection: Connection, now: float, idle_s: float) -> None:
        silent_s = now - connection.last_active
        if connection.gate is not None and connection.gate.is_overdue(now):
            connection.close("the login takes too long")
            return
        if not connection.is_unread:
            self._unread_since.pop(connection, None)
        if connection.is_in_mid_request and silent_s > REQUEST_STALL_SECONDS:
            connection.close(f"a request stopped arriving {silent_s:.0f} s ago")
        elif connection.is_in_mid_request and self._falls_behind(connection, now):
            connection.close("a request arrives too slowly")
        elif connection.is_throttled_in_mid_request and self._is_wanted_of(connection, silent_s):
            connection.close("a request has begun, its client is throttled, and others want the memory")
        elif connection.is_unread:
            if self._reads_too_slowly(connection, now, idle_s):
                connection.close(f"responses were hardly read for {idle_s:.0f} s")
        elif connection.is_idle and silent_s > idle_s:
            connection.close()

    def _falls_behind(self, connection: Connection, now: float) -> bool:
        if self._wanting_budget:
            return connection.falls_behind(now, STARVED_WINDOW_SECONDS, STARVED_BYTES_PER_SECOND_MIN)
        return connection.falls_behind(now, REQUEST_STALL_SECONDS, REQUEST_BYTES_PER_SECOND_MIN)

    def _is_wanted_of(self, connection: Connection, silent_s: float) -> bool:
        """Return whether others want the memory of a request that has brought nothing for two windows on end."""
        return silent_s > 2 * STARVED_WINDOW_SECONDS and bool(self._wanting_budget - {connection})

    def _reads_too_slowly(self, connection: Connection, now: float, idle_s: float) -> bool:
        """Return whether the socket took too little in the last `idle_s`, in all of which responses had to wait."""
        began, sent_bytes = self._unread_since.setdefault(connection, (now, connection.sent_bytes))
        if now - began < idle_s:
            return False
        del self._unread_since[connection]
        return connection.sent_bytes - sent_bytes < (now - began) * UNREAD_BYTES_PER_SECOND_MIN
