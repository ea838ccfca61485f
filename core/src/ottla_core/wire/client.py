"""A small asynchronous client of one broker: sends any version of any request and waits for its response.

It is what the services use between themselves and what the tests use to say exactly what they mean. It knows
nothing of topics, retries or batching. Requests may be sent concurrently; responses arrive in the same order.
"""

import asyncio
import io
import struct
from collections import deque
from typing import Any, Self

from kio.index import load_response_from_request
from kio.serial import entity_reader, entity_writer
from kio.static.protocol import Entity

from ottla_core.errors import OttlaError
from ottla_core.wire.messages import API_VERSIONS_KEY

_INT32 = struct.Struct(">i")
_HEADER = struct.Struct(">hhi")


class ConnectionClosedError(OttlaError):
    """The broker closed the connection before it answered."""


class WireClient:
    """One connection to one broker.

    Use it as an asynchronous context manager, or call `close`.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str) -> None:
        self._reader = reader
        self._writer = writer
        self._client_id = client_id.encode()
        self._next_correlation_id = 0
        self._waiting: deque[tuple[int, asyncio.Future[memoryview]]] = deque()
        self._receiving = asyncio.create_task(self._receive())

    @classmethod
    async def connect(cls, host: str, port: int, *, client_id: str = "ottla") -> Self:
        """Open a connection.

        Raises:
            OSError: nobody listens there.
        """
        reader, writer = await asyncio.open_connection(host, port)
        return cls(reader, writer, client_id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(self, request: Any) -> Any:
        """Send a request of kio's classes and return its response, of the same version.

        Raises:
            ConnectionClosedError: the broker closed the connection instead of answering.
        """
        frame = await self.send_frame(self.encode(request))
        response_type: type[Entity] = load_response_from_request(type(request))
        tagged = response_type.__flexible__ and request.__api_key__ != API_VERSIONS_KEY
        offset = _INT32.size + (1 if tagged else 0)
        return entity_reader(response_type)(frame, offset)[0]

    def encode(self, request: Any) -> bytes:
        """Return the frame of a request, without its length, under the next correlation id."""
        buffer = io.BytesIO()
        buffer.write(_HEADER.pack(request.__api_key__, request.__version__, self._next_correlation_id))
        buffer.write(struct.pack(">h", len(self._client_id)) + self._client_id)
        if request.__flexible__:
            buffer.write(b"\0")
        entity_writer(type(request))(buffer, request)
        return buffer.getvalue()

    async def send_frame(self, frame: bytes) -> memoryview:
        """Send a frame made by `encode` and return the response's frame, without its length."""
        correlation_id = self._next_correlation_id
        self._next_correlation_id += 1
        answered: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        if self._receiving.done():
            raise ConnectionClosedError("the connection is closed")
        self._waiting.append((correlation_id, answered))
        self.post_frame(frame)
        return await answered

    def post_frame(self, frame: bytes) -> None:
        """Send a frame for which no response will come, such as a produce with acks=0."""
        self._writer.write(_INT32.pack(len(frame)) + frame)

    async def close(self) -> None:
        """Close the connection; requests without a response fail."""
        self._receiving.cancel()
        await asyncio.gather(self._receiving, return_exceptions=True)
        self._writer.close()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)

    async def _receive(self) -> None:
        try:
            while True:
                (length,) = _INT32.unpack(await self._reader.readexactly(_INT32.size))
                frame = memoryview(await self._reader.readexactly(length)).toreadonly()
                correlation_id, answered = self._waiting.popleft()
                assert _INT32.unpack_from(frame)[0] == correlation_id, "responses left in the wrong order"
                if not answered.done():
                    answered.set_result(frame)
        except (asyncio.IncompleteReadError, OSError, asyncio.CancelledError) as error:
            for _, answered in self._waiting:
                if not answered.done():
                    answered.set_exception(ConnectionClosedError(f"the broker closed the connection: {error!r}"))
            self._waiting.clear()
