"""A TCP proxy that a test can make lose things: answers, requests, or the connections themselves.

What is lost is swallowed; the connection stays open, as with a network that drops packets, until `sever`.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tests.support.eventually_async import eventually_async
from tests.support.free_ports import LOOPBACK

CHUNK_BYTES = 65536


class FaultyProxy:
    """Passes bytes between its clients and one port.

    Attributes:
        port: where to connect.
        lose_answers: swallow what the server sends.
        lose_requests: swallow what clients send.
        lost_bytes: how much was swallowed so far.
    """

    def __init__(self, target_port: int):
        self.port = 0
        self.lose_answers = False
        self.lose_requests = False
        self.lost_bytes = 0
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, LOOPBACK, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.sever()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def sever(self) -> None:
        """Breaks every connection; new ones are taken."""
        for writer in tuple(self._connections):
            writer.transport.abort()

    @contextlib.asynccontextmanager
    async def losing(self, what: str) -> AsyncIterator[None]:
        """Loses "answers" or "requests" from here until at least one is lost, then breaks the connections.

        The body begins what shall lose its answer, without waiting for it.
        """
        setattr(self, f"lose_{what}", True)
        lost_before = self.lost_bytes
        yield
        await eventually_async(lambda: self.lost_bytes > lost_before, f"{what} are lost")
        setattr(self, f"lose_{what}", False)
        self.sever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection(LOOPBACK, self._target_port)
        except OSError:
            writer.transport.abort()
            return
        self._connections |= {writer, up_writer}
        for task in (
            asyncio.create_task(self._pass(reader, up_writer, requests=True)),
            asyncio.create_task(self._pass(up_reader, writer, requests=False)),
        ):
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, requests: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                if self.lose_requests if requests else self.lose_answers:
                    self.lost_bytes += len(data)
                else:
                    writer.write(data)
                    await writer.drain()
        self._connections.discard(writer)
        writer.transport.abort()
