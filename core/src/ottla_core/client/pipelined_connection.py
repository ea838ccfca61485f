"""A connection to one broker with many requests under way: for data, where `async_connection.py` is for questions.

The caller gives the bytes of a request's body and a function that takes the bytes of the answer; nothing but headers
is encoded or decoded here. A broker answers in order, so an answer belongs to the oldest request without one. Between
the socket and the caller there are neither futures nor streams: at a request per batch they would cost more than the
batch. What is sent in one turn of the event loop, or while answers are handed over that were read together, becomes
one call of the system, which costs more than all else.

What arrives goes into a small buffer. The rest of a frame that does not fit there is received right into a buffer of
the frame's own (`frame_buffers.py`), in few large pieces (`receive_threshold.py`). An answer can be wanted *owned*:
then nobody else uses the memory in which it lies while there is a view of it, so the caller may keep it and write
into it; otherwise it is gone after the call.

A connection that is lost tells all who wait, once each.
"""

import asyncio
import ssl
import struct
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self, cast

from ottla_core.client.errors import CLOSED_THERE, NO_ANSWER, AuthenticationFailed, Unreachable, reason_of
from ottla_core.client.frame_buffers import FrameBuffers
from ottla_core.client.framing import LENGTH_SIZE, CorrelationIds, response_size
from ottla_core.client.protocol import RESPONSE_BYTES_MAX, ClientProtocol
from ottla_core.client.receive_threshold import ReceiveThreshold
from ottla_core.client.security import ClientSecurity
from ottla_core.client.tls import tls_problem
from ottla_core.errors import InvalidResponse
from ottla_core.random_ids import random_nonce
from ottla_core.wire.record_batch import Buffer

CONNECT_TIMEOUT_S: Final = 5.0
SMALL_BUFFER_BYTES: Final = 64 * 1024
UNANSWERED_MAX: Final = 64
"""So many requests may be under way; how many bytes they have is the caller's to bound."""

_HEADER: Final = struct.Struct(">ihhih")
_INT32: Final = struct.Struct(">i")

Lost = Unreachable | AuthenticationFailed
Receiver = Callable[[memoryview | Lost], None]
"""Takes an answer from its correlation id on, or why there will be none. It must not raise."""


class _Expected(NamedTuple):
    """An answer that is to come."""

    correlation_id: int
    receiver: Receiver
    is_owned: bool
    deadline_s: float


class PipelinedConnection(asyncio.BufferedProtocol):
    """An open connection; `open` makes it.

    Attributes:
        address: HOST:PORT, for messages.
        closed: whether nothing can be sent any more.
        after_answers: called after all answers were handed over that were read together, or all losses. It must not
            raise.
    """

    def __init__(self, address: str, client_id: str, protocol: ClientProtocol, buffers: FrameBuffers) -> None:
        self.address = address
        self.closed = False
        self.after_answers: Callable[[], None] | None = None
        self._protocol = protocol
        self._client_id = client_id.encode()
        self._client_id_and_no_tags = self._client_id + b"\0"
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._correlation_ids = CorrelationIds()
        self._expected: deque[_Expected] = deque()
        self._unsent: list[Buffer] = []
        self._is_handing_over = False
        self._is_plain = False
        self._threshold: ReceiveThreshold | None = None
        self._buffers = buffers
        self._small = memoryview(bytearray(SMALL_BUFFER_BYTES))
        self._filled = 0
        self._frame: memoryview | None = None
        self._received = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0
        self._expires_s: float | None = None

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        security: ClientSecurity,
        client_id: str,
        timeout_s: float = CONNECT_TIMEOUT_S,
        buffers: FrameBuffers | None = None,
    ) -> Self:
        """Connect, and log in.

        Args:
            host: the broker's name or address, to which its certificate has to belong.
            port: where it listens.
            security: TLS and login.
            client_id: the name under which the broker counts us.
            timeout_s: for a token, for the connection, and for each answer of the login.
            buffers: for large answers; None for a new one each time.

        Raises:
            Unreachable: nothing there speaks Kafka's protocol, or nobody gives a token, as far as we hear.
            AuthenticationFailed: one of both sides is not whom the other expects.
            UnsupportedByBroker: the broker does not know how to authenticate.
        """
        address = f"{host}:{port}"
        # A token is asked for by a blocking call, and before the broker waits for it.
        login = await asyncio.to_thread(security.login_now, timeout_s) if security.tokens else security.login
        protocol = ClientProtocol(address, client_id, login)
        connection = cls(address, client_id, protocol, FrameBuffers(0) if buffers is None else buffers)
        try:
            async with asyncio.timeout(timeout_s):
                await connection._loop.create_connection(
                    lambda: connection, host, port, ssl=security.tls, server_hostname=host if security.tls else None
                )
        except ssl.SSLError as error:
            raise tls_problem(address, error) from None
        except (OSError, UnicodeError) as error:
            raise Unreachable(f"{address} ({reason_of(error)})") from None
        try:
            await connection._begin(timeout_s)
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def is_usable(self) -> bool:
        """Whether a request may be sent: it is open, and its SASL session is not about to end."""
        return not self.closed and (self._expires_s is None or self._loop.time() < self._expires_s)

    @property
    def unanswered(self) -> int:
        """How many requests are under way."""
        return len(self._expected)

    def version_among(self, api_key: int, oldest: int, newest: int) -> int:
        """Return the newest version of an API that the broker and its codec know.

        Args:
            api_key: the API.
            oldest: the oldest version that the caller can write and read.
            newest: the newest one.

        Raises:
            UnsupportedByBroker: there is none.
        """
        return self._protocol.version_among(api_key, oldest, newest)

    def close(self) -> None:
        """Close it; whoever waits for an answer gets `Unreachable`."""
        self._lose(Unreachable(f"{self.address} (the connection is closed)"))

    async def ask(self, request: Any, *, timeout_s: float) -> Any:
        """Send a request of the newest class and return the response in the newest class, before any data is sent.

        Raises:
            Unreachable, AuthenticationFailed, UnsupportedByBroker: see `AsyncConnection.ask`.
        """
        return await self._exchange(self._protocol.request(request), timeout_s)

    def send(
        self,
        api_key: int,
        version: int,
        body: Sequence[Buffer],
        receiver: Receiver,
        *,
        is_flexible: bool,
        timeout_s: float,
        is_owned: bool = False,
    ) -> None:
        """Send a request.

        Args:
            api_key: the API.
            version: of the API.
            body: what follows the header, in pieces, which are not to be changed before there is an answer.
            receiver: is called later with the answer, or with the reason why there is none.
            is_flexible: whether the version has tagged fields.
            timeout_s: when an answer is given up, and the connection with it.
            is_owned: whether the answer is the receiver's as long as it keeps a view of it.

        Raises:
            Unreachable: the connection is closed; the receiver is not called.
        """
        if self.closed:
            raise Unreachable(f"{self.address} (the connection is closed)")
        assert len(self._expected) < UNANSWERED_MAX, "too many requests under way"
        correlation_id = self._correlation_ids.next()
        head = self._client_id_and_no_tags if is_flexible else self._client_id
        size = _HEADER.size - LENGTH_SIZE + len(head) + sum(map(len, body))
        prefix = _HEADER.pack(size, api_key, version, correlation_id, len(self._client_id))
        deadline_s = self._loop.time() + timeout_s
        self._expect(_Expected(correlation_id, receiver, is_owned, deadline_s))
        if not self._unsent and not self._is_handing_over:
            self._loop.call_soon(self._flush)
        self._unsent += (prefix, head, *body)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if not unsent or self.closed or self._transport is None:
            return
        if self._is_plain:
            self._transport.writelines(unsent)  # on uvloop the kernel gathers the pieces, and nothing is copied
        else:
            self._transport.write(b"".join(unsent))  # each piece would become a record of TLS

    # The opening

    async def _begin(self, timeout_s: float) -> None:
        opening = self._protocol.opening(random_nonce())
        frame = next(opening)
        with suppress(StopIteration):
            while True:
                frame = opening.send(await self._exchange(frame, timeout_s))
        if self._protocol.usable_for_s is not None:
            self._expires_s = self._loop.time() + self._protocol.usable_for_s

    async def _exchange(self, frame: bytes, timeout_s: float) -> Any:
        if self.closed:
            raise Unreachable(f"{self.address} (the connection is closed)")
        assert self._transport is not None
        answer: asyncio.Future[bytes] = self._loop.create_future()

        def receive(found: memoryview | Lost) -> None:
            if answer.done():
                return
            if isinstance(found, Exception):
                answer.set_exception(found)
            else:
                answer.set_result(_INT32.pack(len(found)) + found)

        (correlation_id,) = _INT32.unpack_from(frame, LENGTH_SIZE + 4)
        self._expect(_Expected(correlation_id, receive, False, self._loop.time() + timeout_s))
        self._transport.write(frame)
        return self._protocol.response(await answer)

    # Deadlines

    def _expect(self, expected: _Expected) -> None:
        self._expected.append(expected)
        if self._timer is not None:
            if self._timer_s <= expected.deadline_s:
                return  # it looks again when it is due, which is cheaper than a timer for each request
            self._timer.cancel()
        self._set_timer(expected.deadline_s)

    def _set_timer(self, deadline_s: float) -> None:
        self._timer_s = deadline_s
        self._timer = self._loop.call_at(deadline_s, self._on_timer)

    def _on_timer(self) -> None:
        """Give up if the oldest request is overdue, else look again at its deadline."""
        self._timer = None
        if not self._expected:
            return
        deadline_s = min(each.deadline_s for each in self._expected)
        if self._loop.time() >= deadline_s:
            self._lose(Unreachable(f"{self.address} ({NO_ANSWER})"))
        else:
            self._set_timer(deadline_s)

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; called by the event loop."""
        self._transport = cast("asyncio.Transport", transport)
        self._is_plain = transport.get_extra_info("sslcontext") is None

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go; called by the event loop."""
        if self._frame is not None:
            return self._frame[self._received :]
        return self._small[self._filled :] if self._filled else self._small

    def buffer_updated(self, nbytes: int) -> None:
        """Take what has arrived; called by the event loop."""
        if self.closed:
            return
        self._is_handing_over = True
        try:
            if self._frame is not None:
                self._take_piece(self._frame, nbytes)
            else:
                self._filled += nbytes
                self._take_frames()
            if self.after_answers is not None:
                self.after_answers()
        except InvalidResponse:
            self._lose(Unreachable(f"{self.address} (what listens there does not speak Kafka's protocol)"))
        finally:
            self._is_handing_over = False
        if self._unsent:
            self._flush()

    def _take_piece(self, frame: memoryview, size_bytes: int) -> None:
        """Go on with a large frame, and hand it over if it is complete."""
        self._received += size_bytes
        missing_bytes = len(frame) - self._received
        if self._threshold is not None:
            self._threshold.expect(missing_bytes)
        if not missing_bytes:
            self._frame = None
            self._hand_over(frame)

    def eof_received(self) -> bool:
        """Have the transport closed; called by the event loop."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell all who wait; called by the event loop."""
        if isinstance(exc, ssl.SSLError):
            self._lose(tls_problem(self.address, exc))
        else:
            self._lose(Unreachable(f"{self.address} ({reason_of(exc) if exc else CLOSED_THERE})"))

    def _take_frames(self) -> None:
        """Hand over the whole frames in the small buffer, and go on with what is left where it fits."""
        small, filled, start = self._small, self._filled, 0
        while filled - start >= LENGTH_SIZE:
            size = response_size(small, start, RESPONSE_BYTES_MAX)
            begin = start + LENGTH_SIZE
            end = begin + size
            if end > filled:
                if end - start > SMALL_BUFFER_BYTES:
                    self._begin_large(size, small[begin:filled])
                    return
                break
            self._hand_over(small[begin:end])
            if self.closed:
                return
            start = end
        if start:
            rest = filled - start
            if rest:
                small[:rest] = bytes(small[start:filled])
            self._filled = rest

    def _begin_large(self, size: int, beginning: memoryview) -> None:
        self._frame = self._buffers.take(size)
        self._received = len(beginning)
        self._frame[: self._received] = beginning
        self._filled = 0
        if self._threshold is None and self._is_plain and self._transport is not None:
            # With TLS it is not known how many bytes of the socket a frame takes.
            self._threshold = ReceiveThreshold(self._transport.get_extra_info("socket").dup())
        if self._threshold is not None:
            self._threshold.expect(size - self._received)

    def _hand_over(self, answer: memoryview) -> None:
        """Call who waits for this answer."""
        if not self._expected:
            self._lose(Unreachable(f"{self.address} (an answer that nobody asked for)"))
            return
        expected = self._expected.popleft()
        correlation_id, receiver, is_owned, _ = expected
        if _INT32.unpack_from(answer)[0] != correlation_id:
            # The one at hand is told with the others.
            self._expected.appendleft(expected)
            self._lose(Unreachable(f"{self.address} (it answered another request)"))
            return
        if is_owned and answer.obj is self._small.obj:
            answer = memoryview(bytearray(answer))
        receiver(answer)

    def _lose(self, reason: Lost) -> None:
        if self.closed:
            return
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()  # nothing that has not been sent is worth waiting for
        if self._threshold is not None:
            self._threshold.close()
        expected, self._expected = self._expected, deque()
        for each in expected:
            each.receiver(reason)
        if self.after_answers is not None:
            self.after_answers()
