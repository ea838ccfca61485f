"""A follower's connection to a leader: requests out, fetch responses in, partition by partition as they arrive.

It works on a channel that the event loop watches, as the broker's connections with clients do. What arrives goes into
a small buffer; a response that is larger gets one for the whole of it from a pool, and the rest of it is received
right into its place. The records that a receiver is shown lie in that buffer, and are gone afterwards.

At most one fetch is under way. Beside it there can be short requests whose answers are decoded by kio: one sent
while the leader holds a fetch back has the fetch answered at once, which `hurry` makes use of.

Framing is that of all clients (`ottla_core/client/framing.py`). Versions are fixed, as brokers of one cluster know
them. The channel has TLS where the listener has it, and the broker has logged in on it (`sasl/peer_login.py`).
"""

import asyncio
import math
from collections import deque
from typing import Any, Final, Protocol

import structlog

from ottla_broker.channel import Channel
from ottla_broker.receive_buffer import BufferPool
from ottla_broker.replication.fetch_plan import PlannedFetch
from ottla_broker.tls.connecting import Connect
from ottla_core.client.framing import LENGTH_SIZE, CorrelationIds, request_frame, response_size
from ottla_core.errors import InvalidResponse, KafkaError
from ottla_core.wire.messages import API_VERSIONS_KEY, message_codec
from ottla_core.wire.replica_fetch_request import ReplicaFetchRequestWriter
from ottla_core.wire.replica_fetch_response import FetchedHead, PartitionFetched, ReplicaFetchResponseReader

SMALL_BUFFER_BYTES: Final = 64 * 1024
RECEIVED_AT_ONCE_BYTES_MAX: Final = 1024 * 1024
"""How much is received and appended before the event loop turns to others."""
API_VERSIONS_VERSION: Final = 0

logger = structlog.get_logger("replication")


class ConnectionLostError(Exception):
    """The leader cannot be reached or has said something impossible."""


class FetchReceiver(Protocol):
    """Who is told what a leader answers."""

    def on_partition(self, fetched: PartitionFetched) -> None:
        """Take what came of one partition; its records are gone after the call."""

    def on_answered(self, head: FetchedHead) -> None:
        """Go on after a fetch was answered in full."""

    def on_lost(self, reason: str) -> None:
        """Go on after the connection broke."""


class LeaderConnection(Protocol):
    """What a fetcher needs of an open connection; see `FetchConnection`."""

    awaits_fetch: bool
    last_active: float
    usable_until: float
    is_closed: bool

    @property
    def awaits_answer(self) -> bool:
        """Whether anything is under way."""

    def send_fetch(self, broker_epoch: int, planned: PlannedFetch) -> None:
        """Send a fetch."""

    def hurry(self) -> None:
        """Have the fetch that is under way answered with what there is."""

    async def ask(self, api_key: int, version: int, message: Any) -> Any:
        """Send a short request and return the decoded answer."""

    def close(self, reason: str = "") -> None:
        """Close."""


class OpenConnection(Protocol):
    """Connects to a leader; see `open_by`."""

    async def __call__(
        self,
        host: str,
        port: int,
        receiver: FetchReceiver,
        pool: BufferPool,
        *,
        writer: ReplicaFetchRequestWriter,
        client_id: str,
        frame_bytes_max: int,
    ) -> LeaderConnection:
        """Connect."""


class FetchConnection:
    """An open connection.

    Attributes:
        awaits_fetch: whether a fetch is under way.
        last_active: when bytes last moved or a request was sent, by the loop's clock.
        usable_until: when the login is about to expire, by the same clock; infinite where it does not.
        is_closed: whether it is closed.
    """

    def __init__(
        self,
        channel: Channel,
        receiver: FetchReceiver,
        pool: BufferPool,
        *,
        writer: ReplicaFetchRequestWriter,
        client_id: str,
        frame_bytes_max: int,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._channel = channel
        self._receiver = receiver
        self._pool = pool
        self._writer = writer
        self._client_id = client_id
        self._frame_bytes_max = frame_bytes_max
        self._small = memoryview(bytearray(SMALL_BUFFER_BYTES))
        self._filled = 0
        self._buffer: bytearray | None = None
        self._frame = memoryview(b"")
        self._received = 0
        self._reader: ReplicaFetchResponseReader | None = None
        self._expected: deque[asyncio.Future[bytes] | int] = deque()
        self._unsent = b""
        self._correlation_ids = CorrelationIds()
        self.awaits_fetch = False
        self.last_active = self._loop.time()
        self.usable_until = math.inf if channel.usable_for_s is None else self.last_active + channel.usable_for_s
        self.is_closed = False
        self._loop.add_reader(channel.fileno(), self._on_readable)

    def close(self, reason: str = "it was closed here") -> None:
        """Close; requests under way end with an error."""
        if self.is_closed:
            return
        self.is_closed = True
        self.awaits_fetch = False
        self._loop.remove_reader(self._channel.fileno())
        self._loop.remove_writer(self._channel.fileno())
        self._channel.close()
        expected, self._expected = self._expected, deque()
        for answer in expected:
            if not isinstance(answer, int) and not answer.done():
                answer.set_exception(ConnectionLostError(reason))
        self._release_buffer()

    # Sending

    def send_fetch(self, broker_epoch: int, planned: PlannedFetch) -> None:
        """Send a fetch under this broker's registration; the receiver is told what comes of it."""
        assert not self.awaits_fetch, "one fetch at a time"
        self.awaits_fetch = True
        self.last_active = self._loop.time()
        correlation_id = self._correlation_ids.next()
        self._expected.append(correlation_id)
        self._send(
            self._writer.write(correlation_id, broker_epoch, planned.session, planned.asked, planned.forgotten)
        )

    @property
    def awaits_answer(self) -> bool:
        """Whether anything is under way: a fetch, or a question about offsets, for which all fetches may wait."""
        return bool(self._expected)

    async def ask(self, api_key: int, version: int, message: Any) -> Any:
        """Send a short request and return the decoded answer.

        Raises:
            ConnectionLostError: there will be none.
            InvalidRequest: it is malformed.
        """
        frame = request_frame(api_key, version, self._correlation_ids.next(), self._client_id, message)
        answer: asyncio.Future[bytes] = self._loop.create_future()
        if self.is_closed:
            raise ConnectionLostError("it is closed")
        self._expected.append(answer)
        self.last_active = self._loop.time()
        self._send(frame)
        return message_codec(api_key, version).read_response(await answer)

    def hurry(self) -> None:
        """Have the fetch that is under way answered with what there is."""
        message = message_codec(API_VERSIONS_KEY, API_VERSIONS_VERSION).request_type()
        frame = request_frame(
            API_VERSIONS_KEY, API_VERSIONS_VERSION, self._correlation_ids.next(), self._client_id, message
        )
        answer: asyncio.Future[bytes] = self._loop.create_future()
        answer.add_done_callback(lambda done: done.exception())  # nobody waits for it, and it may fail
        self._expected.append(answer)
        self._send(frame)

    def _send(self, frame: bytes) -> None:
        if self._unsent:
            self._unsent += frame
            return
        try:
            sent = self._channel.send(frame)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._unsent = frame
            self._loop.call_soon(self._lose, str(error))
            return
        if sent < len(frame):
            self._unsent = frame[sent:]
            self._loop.add_writer(self._channel.fileno(), self._on_writable)

    def _on_writable(self) -> None:
        try:
            sent = self._channel.send(self._unsent)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(str(error))
            return
        self.last_active = self._loop.time()
        self._unsent = self._unsent[sent:]
        if not self._unsent:
            self._loop.remove_writer(self._channel.fileno())

    # Receiving

    def _look_again(self) -> None:
        """Take what the channel has received already, of which the event loop does not tell."""
        if not self.is_closed:
            self._on_readable()

    def _on_readable(self) -> None:
        if self._buffer is not None:
            space = self._frame[self._received : self._received + RECEIVED_AT_ONCE_BYTES_MAX]
        else:
            space = self._small[self._filled :]
        try:
            count = self._channel.receive_into(space)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(str(error))
            return
        if not count:
            self._lose("the leader closed the connection")
            return
        self.last_active = self._loop.time()
        if self._channel.receives_ahead and self._channel.has_received:
            self._loop.call_soon(self._look_again)
        try:
            if self._buffer is not None:
                self._received += count
                self._continue_frame()
            else:
                self._filled += count
                self._take_frames()
        except KafkaError as error:
            self._lose(error.message)
        except Exception:  # a bug of ours must not leave partitions without a fetcher
            logger.exception("an answer could not be handled")
            self._lose("an answer could not be handled")

    def _take_frames(self) -> None:
        """Handle the complete frames in the small buffer, and move the beginning of another one to where it fits."""
        start = 0
        while self._filled - start >= LENGTH_SIZE:
            size = response_size(self._small, start, self._frame_bytes_max)
            begin = start + LENGTH_SIZE
            end = begin + size
            if end > self._filled:
                if end - start > SMALL_BUFFER_BYTES:
                    self._begin_large(size, self._small[begin : self._filled])
                    self._filled = start = 0
                break
            self._handle(self._small[begin:end])
            if self.is_closed:
                return
            start = end
        if start:
            rest = self._filled - start
            self._small[:rest] = bytes(self._small[start : self._filled])
            self._filled = rest

    def _begin_large(self, size: int, beginning: memoryview) -> None:
        self._buffer = self._pool.take(size)
        self._frame = memoryview(self._buffer)[:size]
        self._received = len(beginning)
        self._frame[: self._received] = beginning
        if self._expected and isinstance(correlation_id := self._expected[0], int):
            self._reader = ReplicaFetchResponseReader(self._frame, correlation_id)
        self._continue_frame()

    def _continue_frame(self) -> None:
        """Show the receiver what has come of a large response; finish it when it is complete."""
        if self._reader is not None:
            self._read(self._reader, self._received)
        if self.is_closed or self._received < len(self._frame):
            return
        reader, frame = self._reader, self._frame
        if reader is None:
            self._handle(frame)
            self._release_buffer()
            return
        self._expected.popleft()
        self._release_buffer()
        self._finish(reader)

    def _release_buffer(self) -> None:
        if self._buffer is not None:
            self._frame = memoryview(b"")
            self._reader = None
            self._pool.give_back(self._buffer)
            self._buffer = None

    def _handle(self, frame: memoryview) -> None:
        """Handle a complete frame."""
        if not self._expected:
            raise InvalidResponse("an answer that nobody asked for")
        answer = self._expected.popleft()
        if not isinstance(answer, int):
            if not answer.done():
                answer.set_result(len(frame).to_bytes(LENGTH_SIZE, "big") + frame)
            return
        reader = ReplicaFetchResponseReader(frame, answer)
        self._read(reader, len(frame))
        self._finish(reader)

    def _read(self, reader: ReplicaFetchResponseReader, received: int) -> None:
        while not self.is_closed and (fetched := reader.read_next(received)) is not None:
            self._receiver.on_partition(fetched)

    def _finish(self, reader: ReplicaFetchResponseReader) -> None:
        if self.is_closed:
            return
        self.awaits_fetch = False
        assert reader.head is not None
        self._receiver.on_answered(reader.head)

    def _lose(self, reason: str) -> None:
        if not self.is_closed:
            self.close(reason)
            self._receiver.on_lost(reason)


def open_by(connect: Connect) -> OpenConnection:
    """Return what opens connections over channels that `connect` makes.

    What is returned raises OSError: the leader cannot be reached.
    """

    async def opened(
        host: str,
        port: int,
        receiver: FetchReceiver,
        pool: BufferPool,
        *,
        writer: ReplicaFetchRequestWriter,
        client_id: str,
        frame_bytes_max: int,
    ) -> FetchConnection:
        channel = await connect(host, port)
        return FetchConnection(
            channel, receiver, pool, writer=writer, client_id=client_id, frame_bytes_max=frame_bytes_max
        )

    return opened
