"""The REST API's sockets: bound at once, served from the worker's event loop, closed gracefully.

Listening begins before the worker joins its group, as other workers are told the port; requests are answered from
`serve` on.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator, Sequence

import structlog
import uvicorn
from starlette.types import ASGIApp

from ottla_core.background import start_awaited
from ottla_core.errors import OttlaError
from ottla_core.rest import listener_paths
from ottla_core.rest.client_certificates import CertificateProtocol
from ottla_core.rest.listener_paths import ListenerPaths
from ottla_core.rest.settings import Listener, RestTls
from ottla_core.rest.tls_files import server_context

BACKLOG = 512
CLOSE_TIMEOUT_S = 5
KEEP_ALIVE_TIMEOUT_S = 30
CONNECTIONS_MAX = 2000

log = structlog.get_logger("rest")


class RestError(OttlaError):
    """The REST API cannot listen, or has ended by itself."""


class RestServer:
    """Listens where it was told to.

    Args:
        listeners: the addresses; a port of 0 takes any that is free.
        tls: what https listeners need.
        admin_listeners: addresses for administration alone; None: the others have it, too.

    Raises:
        RestError: an address cannot be bound.
        ConfigurationError: the certificate cannot be used.
    """

    def __init__(
        self,
        listeners: Sequence[Listener],
        tls: RestTls | None = None,
        admin_listeners: Sequence[Listener] | None = None,
    ) -> None:
        self._tls: ssl.SSLContext | None = None
        self._has_own_administration = admin_listeners is not None
        self._users_listeners = len(listeners)
        self._sockets: list[tuple[Listener, socket.socket]] = []
        self._servers: list[_Server] = []
        self._serving: list[asyncio.Task[None]] = []
        try:
            every = [*listeners, *(admin_listeners or ())]
            if any(listener.scheme == "https" for listener in every):
                assert tls is not None, "an https listener without a certificate"
                self._tls = server_context(tls)
            for listener in every:
                bound = _bind(listener)
                self._sockets.append((listener._replace(port=bound.getsockname()[1]), bound))
        except RestError:
            self._close_sockets()
            raise

    @property
    def bound(self) -> list[Listener]:
        """Where it listens, with the ports that it got."""
        return [listener for listener, _ in self._sockets]

    def port_of(self, listener: Listener) -> int:
        """Return the port to which a listener, as it was configured, is bound."""
        return next(
            bound.port
            for bound in self.bound
            if (bound.scheme, bound.host) == (listener.scheme, listener.host) and listener.port in (0, bound.port)
        )

    async def serve(self, app: ASGIApp) -> None:
        """Begin to answer requests.

        Raises:
            RestError: the server does not start.
        """
        for number, (listener, bound) in enumerate(self._sockets):
            # The application is started and stopped once, by the first of its servers.
            served = self._served(app, is_of_users=number < self._users_listeners)
            server = _Server(self._config(served, listener, with_lifespan=number == 0))
            self._servers.append(server)
            self._serving.append(start_awaited("REST server", server.serve([bound])))
        answering = start_awaited("start of the REST servers", self._all_answer())
        await asyncio.wait((answering, *self._serving), return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            answering.cancel()
            raise await self.wait() or RestError("the REST API was closed before it began")
        log.info("the REST API answers", listeners=[str(listener) for listener in self.bound])

    async def wait(self) -> RestError | None:
        """Return when it no longer answers, with the reason unless it was closed."""
        await asyncio.wait(self._serving, return_when=asyncio.FIRST_COMPLETED)
        if all(server.should_exit for server in self._servers):
            return None
        errors = [str(task.exception()) for task in self._serving if task.done() and task.exception()]
        return RestError(f"the REST API has ended: {', '.join(errors) or 'without a reason'}")

    async def close(self) -> None:
        """Take no more connections, finish what is being answered, and end."""
        for server in self._servers:
            server.should_exit = True
        await asyncio.gather(*self._serving, return_exceptions=True)
        self._close_sockets()

    async def _all_answer(self) -> None:
        for server in self._servers:
            await server.answering.wait()

    def _served(self, app: ASGIApp, *, is_of_users: bool) -> ASGIApp:
        """Return what a listener has of the application."""
        if not self._has_own_administration:
            return app
        return ListenerPaths(app, listener_paths.is_of_users if is_of_users else listener_paths.is_of_administration)

    def _config(self, app: ASGIApp, listener: Listener, *, with_lifespan: bool) -> uvicorn.Config:
        return uvicorn.Config(
            app,
            http=CertificateProtocol,
            ws="none",
            lifespan="on" if with_lifespan else "off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_TIMEOUT_S,
            timeout_graceful_shutdown=CLOSE_TIMEOUT_S,
            limit_concurrency=CONNECTIONS_MAX,
            ssl_context_factory=self._own_tls if listener.scheme == "https" else None,
        )

    def _own_tls(self, _config: object, _default: object) -> ssl.SSLContext:
        assert self._tls is not None
        return self._tls

    def _close_sockets(self) -> None:
        for _, bound in self._sockets:
            bound.close()


class _Server(uvicorn.Server):
    """uvicorn's server, which leaves the process's signals to the worker and says when it answers."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.answering = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self.answering.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take no signals."""
        yield


def _bind(listener: Listener) -> socket.socket:
    # Without a host, on every interface; by IPv6 as well where there is such a thing.
    dual = listener.host in ("", "::") and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual or ":" in listener.host else socket.AF_INET
    try:
        return socket.create_server(
            (listener.host, listener.port), family=family, backlog=BACKLOG, dualstack_ipv6=dual
        )
    except OSError as error:
        reason = error.strerror or error
        raise RestError(f"the REST API cannot listen on {listener}: {reason}; see the setting listeners") from None
