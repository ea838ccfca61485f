"""Requests and their answers, over a bounded number of connections.

Each connection has a client of httpx for itself, lent to one thread at a time. In a client that several threads
share, one may close the connection on which another has just sent a request: httpcore's pool looks whether an idle
connection can be read, which would mean that the server has closed it, and does not see that it is idle no more.

An answer is read up to a bound, so that no server can fill the memory. Redirects are not followed: they turn POST
into GET, and may lead credentials elsewhere.
"""

import datetime as dt
import logging
import queue
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx

from ottla_http.authorization import TokenRefused, authorization
from ottla_http.client_config import HttpClientConfig
from ottla_http.permitted_connections import permitted_transport
from ottla_http.retry import retry_after_ms
from ottla_http.url_template import shown_url
from ottla_sdk import FatalError, Problem
from ottla_sdk.file_policy import FileRefused, permitted_path

ERROR_TEXT_CHARACTERS = 300
USER_AGENT = "ottla-http"
_READ_BYTES = 65_536
_TOKEN_SERVER_BUSY = frozenset({408, 425, 429, *range(500, 600)})


# httpx logs every request with its URL, in which there may be an API key.
logging.getLogger("httpx").addFilter(lambda record: record.levelno > logging.INFO)


class NoAnswer(Exception):
    """There was no answer, or not all of it; the request may have been carried out."""


class AnswerTooLong(Exception):
    """The answer has more bytes than it may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A server's answer.

    Attributes:
        status: its status.
        headers: its headers.
        body: its body, decompressed; only the beginning if it was cut.
        url: what was asked.
        credentials: what the request showed who sent it by, which servers may repeat; empty if there was nothing.
    """

    status: int
    headers: httpx.Headers
    body: bytes
    url: str
    credentials: str = field(default="", repr=False)

    @property
    def is_success(self) -> bool:
        """Whether the status is one of 200 to 299."""
        return httpx.codes.is_success(self.status)

    @property
    def retry_after_ms(self) -> int | None:
        """How long the server asks to wait; None if it does not."""
        return retry_after_ms(self.headers.get("Retry-After"), lambda: dt.datetime.now(dt.UTC))

    def __str__(self) -> str:
        """Return the status and the beginning of the body, for people."""
        text = self.body.decode("utf-8", "replace")
        if self.credentials:
            text = text.replace(self.credentials, "…")  # a token, or a password in base64, which nobody else knows
        text = " ".join(text[: 4 * ERROR_TEXT_CHARACTERS].split())
        location = f" to {shown_url(self.headers['Location'])}" if "Location" in self.headers else ""
        shown = text if text.isprintable() else repr(text)
        return f"{self.status}{location}{': ' if shown else ''}{shown[:ERROR_TEXT_CHARACTERS]}"


class Client:
    """Sends requests as the settings say; may be used by several threads at once."""

    def __init__(self, config: HttpClientConfig) -> None:
        """Prepare; nothing is connected yet.

        Raises:
            FatalError: certificates or keys cannot be used.
        """
        self._config = config
        self._timeout_s = config.request_timeout_ms / 1000
        self._configured = httpx.Headers(config.header_items)
        self._authorization = authorization(config)
        self._tls = tls_context(config)
        self._made: list[httpx.Client] = []
        self._is_closed = False
        self._idle: queue.LifoQueue[httpx.Client | None] = queue.LifoQueue()
        for _ in range(config.connections_max):
            self._idle.put(None)  # is made when it is needed

    def close(self) -> None:
        """Close all connections, and make no more."""
        self._is_closed = True
        for client in self._made:
            client.close()

    def send(
        self, method: str, url: str, *, body: bytes | None, headers: Mapping[str, str], bytes_max: int, cut: bool
    ) -> Answer:
        """Send a request.

        Args:
            method: such as POST.
            url: the whole URL.
            body: the body, if there is one.
            headers: headers besides those of every request, which win over these.
            bytes_max: how much of the answer's body is read.
            cut: whether a longer body is cut there, or an error.

        Raises:
            NoAnswer: there was none.
            AnswerTooLong: it is.
            FatalError: the request cannot be sent, or the token server refuses us.
            AddressRefused: the server, token server or proxy has an address that the worker does not permit.
        """
        own = {name: value for name, value in headers.items() if name not in self._configured}
        try:
            with self._lent() as client, client.stream(method, url, content=body, headers=own) as response:
                content = self._read(response, bytes_max, cut=cut)
                return Answer(
                    status=response.status_code,
                    headers=response.headers,
                    body=content,
                    url=url,
                    credentials=response.request.headers.get("Authorization", "").partition(" ")[2],
                )
        except TokenRefused as error:
            if error.status in _TOKEN_SERVER_BUSY or httpx.codes.is_success(error.status):
                raise NoAnswer(str(error)) from None
            raise FatalError(str(error)) from None
        except (httpx.TransportError, httpx.DecodingError) as error:
            if isinstance(error, httpx.UnsupportedProtocol):
                raise FatalError(f"{method} {shown_url(url)}: {error}") from None
            raise NoAnswer(_described(error)) from None
        except httpx.InvalidURL as error:
            raise FatalError(f"{method} {shown_url(url)}: {error}") from None

    @contextmanager
    def _lent(self) -> Iterator[httpx.Client]:
        """Lend a client, the one that was used last if there are several.

        Raises:
            NoAnswer: all connections are busy for as long as a request may take, or closed.
        """
        try:
            client = self._idle.get(timeout=self._timeout_s)
        except queue.Empty:
            raise NoAnswer("no connection was free in time (http.connections.max)") from None
        try:
            if self._is_closed:
                raise NoAnswer("the client is closed")
            client = client or self._new_client()
            yield client
        finally:
            self._idle.put(client)

    def _new_client(self) -> httpx.Client:
        config = self._config
        client = httpx.Client(
            auth=self._authorization,
            headers=[("User-Agent", USER_AGENT), *config.header_items],
            timeout=httpx.Timeout(self._timeout_s, connect=config.connect_timeout_ms / 1000),
            transport=permitted_transport(
                verify=self._tls,
                limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
                proxy=httpx.Proxy(config.proxy) if config.proxy else None,
                trust_env=False,
            ),
            trust_env=False,
            follow_redirects=False,
        )
        self._made.append(client)
        return client

    def _read(self, response: httpx.Response, bytes_max: int, *, cut: bool) -> bytes:
        content = bytearray()
        give_up_s = time.monotonic() + max(self._timeout_s * 10, 60.0)
        for piece in response.iter_bytes(_READ_BYTES):
            content += piece
            if len(content) > bytes_max:
                if cut:
                    break
                raise AnswerTooLong(f"the answer has more than {bytes_max} bytes")
            if time.monotonic() > give_up_s:
                raise NoAnswer("the answer does not end")
        return bytes(content[:bytes_max])


def tls_context(config: HttpClientConfig) -> ssl.SSLContext:
    """Return what the settings say about TLS.

    Raises:
        FatalError: a file cannot be used.
    """
    if problem := tls_problem(config):
        raise FatalError(str(problem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not config.tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif config.tls_ca is not None:
        context.load_verify_locations(permitted_path(config.tls_ca))
    elif config.uses_tls:  # only then, as it takes a while: the system's authorities, and those that Mozilla trusts
        context = httpx.create_ssl_context()
        context.load_default_certs()
    if config.tls_certificate is not None:
        _load_certificate(context, config)
    return context


def tls_problem(config: HttpClientConfig) -> Problem | None:
    """Return which file cannot be used, and why; None if all can."""
    try:
        if config.tls_ca is not None:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(permitted_path(config.tls_ca))
    except OSError as error:  # ssl.SSLError is one
        return Problem("http.tls.ca", f"{config.tls_ca}: {error.strerror or error}")
    except FileRefused as error:
        return Problem("http.tls.ca", str(error))
    try:
        if config.tls_certificate is not None:
            _load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), config)
    except OSError as error:
        return Problem("http.tls.certificate", f"{config.tls_certificate}: {error.strerror or error}")
    except FileRefused as error:
        return Problem("http.tls.certificate", str(error))
    return None


def _load_certificate(context: ssl.SSLContext, config: HttpClientConfig) -> None:
    assert config.tls_certificate is not None, "there is no certificate to load"
    password = config.tls_key_password.get_secret_value() if config.tls_key_password is not None else ""
    key = None if config.tls_key is None else permitted_path(config.tls_key)
    context.load_cert_chain(permitted_path(config.tls_certificate), key, password)


def _described(error: Exception) -> str:
    text = str(error) or "no answer in time" if isinstance(error, httpx.TimeoutException) else str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
