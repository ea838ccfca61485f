"""The connection against small servers; TLS and logins are in `test_secured_connections.py`."""

import asyncio
import random
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop
from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i16

from ottla_core.client.errors import Unreachable, UnsupportedByBroker
from ottla_core.client.frame_buffers import FrameBuffers
from ottla_core.client.pipelined_connection import CONNECT_TIMEOUT_S, SMALL_BUFFER_BYTES, Lost, PipelinedConnection
from ottla_core.client.security import ClientSecurity
from ottla_core.wire.messages import message_codec
from tests.support.eventually_async import eventually_async

API_VERSIONS, FETCH = 18, 1
WITHIN_S = 10.0
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def read_request(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The correlation id and the body of the next request, by a client of the name test."""
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    frame = await reader.readexactly(size)
    return int.from_bytes(frame[4:8], "big"), frame[8 + 2 + len(b"test") :]


def answer(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


@asynccontextmanager
async def connected(serve: Serve, buffers: FrameBuffers | None = None) -> AsyncIterator[PipelinedConnection]:
    """A connection to a server that has told its versions before `serve` is called."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            correlation_id, _ = await read_request(reader)
            served = (ApiVersion(api_key=i16(FETCH), min_version=i16(4), max_version=i16(12)),)
            told = ApiVersionsResponse(error_code=ErrorCode.none, api_keys=served)
            writer.write(message_codec(API_VERSIONS, 0).encode_response(correlation_id, told))
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        connection = await PipelinedConnection.open(
            "127.0.0.1", port, security=ClientSecurity(), client_id="test", buffers=buffers
        )
        try:
            yield connection
        finally:
            connection.close()


def send(
    connection: PipelinedConnection,
    body: bytes,
    found: list[bytes | Lost],
    *,
    kept: list[memoryview] | None = None,
    timeout_s: float = WITHIN_S,
) -> None:
    def receive(received: memoryview | Lost) -> None:
        if kept is not None and isinstance(received, memoryview):
            kept.append(received)
        found.append(bytes(received[4:]) if isinstance(received, memoryview) else received)

    connection.send(FETCH, 4, [body], receive, is_flexible=False, timeout_s=timeout_s, is_owned=kept is not None)


async def test_answers_of_all_sizes_come_to_their_requests_however_the_bytes_arrive():
    chosen = random.Random(1)
    sizes = [0, 1, SMALL_BUFFER_BYTES - 8, SMALL_BUFFER_BYTES - 7, SMALL_BUFFER_BYTES, 3_000_000]
    sizes += [chosen.randrange(70_000) for _ in range(30)]
    bodies = [chosen.randbytes(size) for size in sizes]

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = b""
        for _ in bodies:
            sent += answer(*await read_request(reader))
        while sent:
            size = chosen.choice((1, 7, 5000, 200_000))
            writer.write(sent[:size])
            await writer.drain()
            await asyncio.sleep(0)
            sent = sent[size:]
        await reader.read()

    async with connected(echo) as connection:
        found: list[bytes | Lost] = []
        for body in bodies:
            send(connection, body, found)
        assert connection.unanswered == len(bodies)
        await eventually_async(lambda: len(found) == len(bodies), "all are answered")
        assert found == bodies
        assert connection.unanswered == 0


async def test_an_owned_answer_stays_as_it_is_and_may_be_written_into():
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(answer(*await read_request(reader)))

    async with connected(echo) as connection:
        found: list[bytes | Lost] = []
        kept: list[memoryview] = []
        for number in range(8):
            send(connection, bytes((number,)) * 100, found, kept=kept)
        send(connection, b"\x08" * 100_000, found, kept=kept)
        await eventually_async(lambda: len(found) == 9, "all are answered")
        for number, view in enumerate(kept):
            assert set(view[4:]) == {number}
            view[4:5] = b"x"


async def test_large_answers_that_are_kept_stay_as_they_are_while_others_use_memory_again():
    bodies = [bytes([number]) * 300_000 for number in range(60)]

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(answer(*await read_request(reader)))

    buffers = FrameBuffers()
    async with connected(echo, buffers) as connection:
        kept: list[memoryview] = []
        for body in bodies:
            found: list[bytes | Lost] = []
            received: list[memoryview] = []
            send(connection, body, found, kept=received)
            await eventually_async(lambda found=found: bool(found), "it is answered")
            kept += [each[4:8] for each in received if body[0] % 10 == 0]
            received.clear()
        assert [bytes(each) for each in kept] == [bytes([number]) * 4 for number in range(0, 60, 10)]
        assert buffers.size_bytes < 60 * 300_000 // 2, "most answers lay where others had lain"


def test_a_large_answer_that_arrives_in_many_pieces_is_read_in_few():
    pieces, piece_bytes = 200, 5000

    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            correlation_id, _ = await read_request(reader)
            sent = answer(correlation_id, bytes(pieces * piece_bytes))
            for start in range(0, len(sent), piece_bytes):
                writer.write(sent[start : start + piece_bytes])
                await writer.drain()
                for _ in range(3):  # so that the connection has its turn, if it is woken
                    await asyncio.sleep(0)

    async def ask() -> None:
        async with connected(trickle) as connection:
            reads = 0
            take_piece = connection._take_piece

            def count(frame: memoryview, size_bytes: int) -> None:
                nonlocal reads
                reads += 1
                take_piece(frame, size_bytes)

            connection._take_piece = count  # type: ignore[method-assign]
            found: list[bytes | Lost] = []
            for number in range(1, 4):
                send(connection, b"", found)
                await eventually_async(lambda: len(found) == number, "it is answered")  # noqa: B023
            assert [len(each) for each in found if isinstance(each, bytes)] == 3 * [pieces * piece_bytes]
            assert reads < 3 * pieces / 5, "it is not woken for each piece"

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(ask())


async def test_what_follows_from_answers_is_done_once_for_all_that_are_read_together():
    async def answer_three_together(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            asked = [await read_request(reader) for _ in range(3)]
            writer.write(b"".join(answer(*each) for each in asked))

    async with connected(answer_three_together) as connection:
        found: list[bytes | Lost] = []
        seen: list[int] = []

        def after_answers() -> None:
            seen.append(len(found))
            if len(seen) == 1:
                for _ in range(3):
                    send(connection, b"more", found)

        connection.after_answers = after_answers
        for _ in range(3):
            send(connection, b"first", found)
        await eventually_async(lambda: len(found) == 6, "all are answered")
        assert seen == [3, 6]
        send(connection, b"lost", found)
        connection.close()
        assert seen == [3, 6, 7]


def test_on_uvloop_thousands_of_pieces_arrive_in_their_order_however_slowly_they_are_read():
    chosen = random.Random(2)
    pieces = [memoryview(chosen.randbytes(chosen.choice((0, 3, 20_000)))) for _ in range(3000)]

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(answer(*await read_request(reader)))

    async def ask() -> None:
        async with connected(echo) as connection:
            found: list[bytes | Lost] = []
            for _ in range(3):
                connection.send(
                    FETCH,
                    4,
                    pieces,
                    lambda received: found.append(
                        bytes(received[4:]) if isinstance(received, memoryview) else received
                    ),
                    is_flexible=False,
                    timeout_s=WITHIN_S,
                )
            await eventually_async(lambda: len(found) == 3, "all are answered")
            assert all(each == b"".join(pieces) for each in found)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(ask())


async def test_versions_are_those_that_both_know():
    async with connected(lambda reader, _: reader.read()) as connection:  # type: ignore[arg-type, return-value]
        assert connection.version_among(FETCH, 4, 17) == 12
        assert connection.version_among(FETCH, 4, 6) == 6
        with pytest.raises(UnsupportedByBroker):
            connection.version_among(FETCH, 13, 17)
        with pytest.raises(UnsupportedByBroker):
            connection.version_among(0, 3, 9)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"", "it closed the connection"),
        (answer(77, b""), "it answered another request"),
        (struct.pack(">i", 2**30), "does not speak Kafka's protocol"),
        (struct.pack(">i", 1), "does not speak Kafka's protocol"),
        (struct.pack(">ii", 100_000, 2) + bytes(70_000), "it closed the connection"),
    ],
)
async def test_all_who_wait_are_told_once_why_the_connection_is_lost(said: bytes, reason: str):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):
            await read_request(reader)
        writer.write(said)
        await writer.drain()

    async with connected(serve) as connection:
        found: list[bytes | Lost] = []
        for _ in range(3):
            send(connection, b"", found)
        await eventually_async(lambda: connection.closed, "the connection is given up")
        assert len(found) == 3
        assert all(isinstance(each, Unreachable) and reason in str(each) for each in found)
        with pytest.raises(Unreachable):
            send(connection, b"", found)
        connection.close()
        assert len(found) == 3


async def test_an_answer_that_nobody_asked_for_ends_the_connection():
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(1, b""))
        await reader.read()

    async with connected(serve) as connection:
        await eventually_async(lambda: connection.closed, "the connection is given up")


async def test_an_overdue_answer_ends_the_connection():
    async with connected(lambda reader, _: reader.read()) as connection:  # type: ignore[arg-type, return-value]
        found: list[bytes | Lost] = []
        send(connection, b"", found, timeout_s=0.05)
        await eventually_async(lambda: len(found) == 1, "it is overdue")
        assert "no answer in time" in str(found[0])
        assert connection.closed


async def test_an_overdue_answer_is_noticed_behind_one_that_may_take_long():
    async with connected(lambda reader, _: reader.read()) as connection:  # type: ignore[arg-type, return-value]
        found: list[bytes | Lost] = []
        send(connection, b"", found, timeout_s=600)
        send(connection, b"", found, timeout_s=0.05)
        await eventually_async(lambda: len(found) == 2, "it is overdue", within_s=CONNECT_TIMEOUT_S / 2)
