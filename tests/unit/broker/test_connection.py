"""One connection over a real socket pair: framing, order, bounds, and garbage."""

import asyncio
import os
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode
from structlog.testing import capture_logs

from ottla_broker.channel import PlainChannel
from ottla_broker.connection import PIPELINED_REQUESTS_MAX, Connection
from ottla_broker.log.segments.log_slice import FileSlice
from ottla_broker.log.segments.segment_file import SegmentFile
from ottla_broker.outcome import Outcome
from ottla_broker.receive_buffer import BufferPool, RequestBudget
from ottla_core.errors import InvalidRequest
from ottla_core.failure_log import REASON_CHARACTERS_MAX
from ottla_core.slices import started
from ottla_core.wire.fetch_response import PartitionFetched, encode_fetch_response

DEADLINE_SECONDS = 10


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


@dataclass
class Owner:
    """Stands for the listener; `answer` decides what a frame is answered with."""

    answer: Callable[[bytes], Outcome]
    request_bytes_max: int = 1_000_000
    budget: RequestBudget = field(default_factory=lambda: RequestBudget(10_000_000))
    pool: BufferPool = field(default_factory=BufferPool)
    shared_buffer: memoryview = field(default_factory=lambda: memoryview(bytearray(64 * 1024)))
    frames: list[bytes] = field(default_factory=list)
    waiting: list[Connection] = field(default_factory=list)
    closed: int = 0
    unsent_bytes: int = 0

    def unsent_changed(self, difference: int) -> None:
        self.unsent_bytes += difference

    def handle(self, frame: memoryview, connection: Connection) -> Outcome:
        self.frames.append(bytes(frame))
        return self.answer(self.frames[-1])

    def on_closed(self, connection: Connection) -> None:
        self.closed += 1

    def wait_for_budget(self, connection: Connection) -> None:
        self.waiting.append(connection)

    def budget_released(self) -> None:
        for connection in self.waiting:
            asyncio.get_running_loop().call_soon(connection.resume)
        self.waiting = []


@dataclass
class Peer:
    """The client's end; `ours` is the socket of the other one."""

    connection: Connection
    ours: socket.socket
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def receive(self) -> bytes:
        async with asyncio.timeout(DEADLINE_SECONDS):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(size)

    async def is_closed(self) -> bool:
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await self.reader.read(1) == b""


@pytest.fixture
async def connect():
    peers: list[Peer] = []

    async def open_peer(owner: Owner) -> Peer:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        connection = Connection(PlainChannel(ours), ("test", 1), "PLAINTEXT", owner, asyncio.get_running_loop())
        peer = Peer(connection, ours, *await asyncio.open_connection(sock=theirs))
        peers.append(peer)
        return peer

    yield open_peer
    for peer in peers:
        peer.connection.close()
        peer.writer.close()


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)  # between two looks; the deadline ends them


async def test_frames_in_one_read_are_handled_and_answered_in_order(connect) -> None:
    owner = Owner(lambda frame: [framed(frame.upper())])
    peer = await connect(owner)
    peer.writer.write(framed(b"one") + framed(b"two") + framed(b"three"))

    assert [await peer.receive() for _ in range(3)] == [b"ONE", b"TWO", b"THREE"]


async def test_a_frame_that_arrives_byte_by_byte_is_handled_whole(connect) -> None:
    owner = Owner(lambda frame: [framed(frame)])
    peer = await connect(owner)
    for byte in framed(b"slowly") + framed(b"again"):
        peer.writer.write(bytes((byte,)))
        await asyncio.sleep(0)

    assert [await peer.receive() for _ in range(2)] == [b"slowly", b"again"]


async def test_a_frame_larger_than_the_shared_buffer_is_handled_whole_and_its_memory_is_given_back(connect) -> None:
    content = os.urandom(700_000)
    owner = Owner(lambda frame: [framed(b"ok")])
    peer = await connect(owner)
    peer.writer.write(framed(content) + framed(b"next"))

    assert [await peer.receive() for _ in range(2)] == [b"ok", b"ok"]
    assert owner.frames == [content, b"next"]
    assert owner.budget.reserved == 0


async def test_a_later_request_may_be_ready_first_but_is_answered_second(connect) -> None:
    first: asyncio.Future = asyncio.get_running_loop().create_future()
    owner = Owner(lambda frame: first if frame == b"first" else [framed(frame)])
    peer = await connect(owner)
    peer.writer.write(framed(b"first") + framed(b"second"))
    await wait_until(lambda: len(owner.frames) == 2)
    first.set_result([framed(b"first, at last")])

    assert [await peer.receive() for _ in range(2)] == [b"first, at last", b"second"]


async def test_a_request_without_an_answer_leaves_no_gap(connect) -> None:
    owner = Owner(lambda frame: None if frame == b"silent" else [framed(frame)])
    peer = await connect(owner)
    peer.writer.write(framed(b"silent") + framed(b"heard"))

    assert await peer.receive() == b"heard"


async def test_file_ranges_are_sent_between_bytes(connect, tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    path = tmp_path / "segment"
    path.write_bytes(content)
    size = len(content) - 1000
    piece = FileSlice(SegmentFile(path), 500, size, ignore)
    peer = await connect(Owner(lambda _: [struct.pack(">i", size + 6) + b"abc", piece, b"xyz"]))
    peer.writer.write(framed(b"fetch"))

    assert await peer.receive() == b"abc" + content[500:-500] + b"xyz"


def ignore(_: OSError) -> None:
    """Takes no note of what the disk refuses."""


class Remembered:
    """A slice of a log that is no file."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def read(self) -> bytes:
        return self._data


async def test_a_slice_of_a_log_need_not_be_a_file(connect, tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"f" * 1000)
    slices = [Remembered(b"m" * 500), FileSlice(SegmentFile(path), 0, 1000, ignore), Remembered(b"n" * 300_000)]
    fetched = [PartitionFetched(index, ErrorCode.none, 7, 7, 0, piece) for index, piece in enumerate(slices)]
    peer = await connect(Owner(lambda _: list(encode_fetch_response(12, bytes(5), [("t", fetched)]))))
    peer.writer.write(framed(b"fetch"))

    response = await peer.receive()
    assert [response.count(letter) for letter in (b"m" * 500, b"f" * 1000, b"n" * 300_000)] == [1, 1, 1]


async def test_what_was_truncated_meanwhile_is_not_sent_but_the_connection_closed(connect, tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"r" * 2000)
    file = SegmentFile(path)
    file.valid.cut_at(1000)
    sizes = {b"kept": 1000, b"lost": 1001}
    peer = await connect(
        Owner(lambda frame: [struct.pack(">i", 1000), FileSlice(file, 0, sizes[bytes(frame)], ignore)])
    )
    peer.writer.write(framed(b"kept"))
    assert await peer.receive() == b"r" * 1000
    peer.writer.write(framed(b"lost"))
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert await peer.reader.read() in {b"", struct.pack(">i", 1000)}


@pytest.mark.parametrize("size", [-1, 0, 1_000_001, 2**31 - 1, -(2**31)])
async def test_an_impossible_length_closes_the_connection(connect, size: int) -> None:
    owner = Owner(lambda frame: [framed(frame)])
    peer = await connect(owner)
    peer.writer.write(framed(b"good") + struct.pack(">i", size) + b"whatever")

    assert await peer.receive() == b"good"
    assert await peer.is_closed()
    assert owner.closed == 1


async def test_a_bad_request_closes_the_connection_after_the_good_ones_before_it_are_answered(connect) -> None:
    def answer(frame: bytes) -> Outcome:
        if frame == b"bad":
            raise InvalidRequest("no such thing")
        return [framed(frame)]

    owner = Owner(answer)
    peer = await connect(owner)
    peer.writer.write(framed(b"good") + framed(b"bad") + framed(b"never"))

    assert await peer.receive() == b"good"
    assert await peer.is_closed()
    assert owner.frames == [b"good", b"bad"]


async def test_what_a_client_sends_takes_little_room_in_the_log(connect) -> None:
    def answer(frame: bytes) -> Outcome:
        raise InvalidRequest(f"no such thing as {frame.decode()}")

    peer = await connect(Owner(answer))
    name = b"n" * 30_000
    with capture_logs() as lines:
        peer.writer.write(struct.pack(">i", len(name)) + name)
        assert await peer.is_closed()
    (line,) = (each for each in lines if each["event"] == "connection closed")
    assert line["reason"].startswith("bad request: no such thing as nnn")
    assert len(line["reason"]) <= REASON_CHARACTERS_MAX


async def test_a_slow_reader_is_not_read_from_until_it_has_read(connect) -> None:
    owner = Owner(lambda frame: [framed(bytes(100_000))])
    peer = await connect(owner)
    peer.writer.transport.pause_reading()
    for _ in range(300):
        peer.writer.write(framed(b"x" * 1000))
    await wait_until(lambda: not peer.connection._reading)
    assert len(owner.frames) < 300, "requests are left unread while their answers cannot leave"

    peer.writer.transport.resume_reading()
    for _ in range(300):
        await peer.receive()


async def test_requests_beyond_the_pipelining_limit_wait_and_are_all_answered(connect) -> None:
    gate = asyncio.Event()

    async def later(frame: bytes):
        await gate.wait()
        return [framed(frame)]

    owner = Owner(later)
    peer = await connect(owner)
    count = 3 * PIPELINED_REQUESTS_MAX
    sent = [str(number).encode() for number in range(count)]
    peer.writer.write(b"".join(map(framed, sent)))
    await wait_until(lambda: len(owner.frames) == PIPELINED_REQUESTS_MAX)
    for _ in range(20):
        await asyncio.sleep(0)  # give it every chance to go too far
    assert len(owner.frames) == PIPELINED_REQUESTS_MAX

    gate.set()
    assert [await peer.receive() for _ in range(count)] == sent


async def test_a_large_frame_waits_for_the_budget(connect) -> None:
    owner = Owner(lambda frame: [framed(b"done")], budget=RequestBudget(500_000))
    assert owner.budget.reserve("others", 499_000)
    peer = await connect(owner)
    peer.writer.write(framed(bytes(200_000)))
    await wait_until(lambda: bool(owner.waiting))
    assert owner.frames == []

    owner.budget.release("others")
    owner.budget_released()
    assert await peer.receive() == b"done"
    assert owner.budget.reserved == 0


async def test_closing_cancels_what_is_still_handled_and_gives_the_memory_back(connect) -> None:
    never: asyncio.Future = asyncio.get_running_loop().create_future()
    owner = Owner(lambda frame: never)
    peer = await connect(owner)
    peer.writer.write(framed(b"wait") + framed(bytes(100_000))[:50_000])
    await wait_until(lambda: owner.frames == [b"wait"] and owner.budget.reserved > 0)
    peer.writer.close()
    await wait_until(lambda: owner.closed == 1)

    assert never.cancelled()
    assert owner.budget.reserved == 0


async def test_a_handler_that_fails_unexpectedly_closes_only_its_connection(connect) -> None:
    def answer(frame: bytes) -> Outcome:
        if frame == b"bug":
            raise ZeroDivisionError
        return [framed(frame)]

    owner = Owner(answer)
    victim, bystander = await connect(owner), await connect(owner)
    victim.writer.write(framed(b"bug"))
    assert await victim.is_closed()
    bystander.writer.write(framed(b"hello"))
    assert await bystander.receive() == b"hello"


async def test_a_request_that_is_handled_in_slices_is_handled_alone(connect) -> None:
    done: asyncio.Future = asyncio.get_running_loop().create_future()
    order: list[bytes] = []

    async def in_slices(frame: bytes) -> list[bytes]:
        await done
        order.append(frame)
        return [framed(frame)]

    def answer(frame: bytes) -> Outcome:
        if frame.startswith(b"long"):
            return started(in_slices(frame))
        order.append(frame)
        return [framed(frame)]

    owner = Owner(answer)
    peer = await connect(owner)
    long_frame = b"long" + bytes(200_000)
    peer.writer.write(framed(b"before") + framed(long_frame) + framed(b"after"))
    await wait_until(lambda: owner.frames[-1:] == [long_frame])
    peer.writer.write(framed(b"last"))
    assert await peer.receive() == b"before"
    assert owner.budget.reserved > 0, "a copy of the frame is worked on"
    assert order == [b"before"]
    done.set_result(None)

    assert [await peer.receive() for _ in range(3)] == [long_frame, b"after", b"last"]
    assert order == [b"before", long_frame, b"after", b"last"]
    assert owner.budget.reserved == 0


async def test_a_connection_reads_on_after_several_requests_that_were_handled_in_slices(connect) -> None:
    """The last of them is all that was held back, and nothing is held when it is done."""
    turns = [asyncio.Event() for _ in range(3)]
    left = iter(turns)

    async def in_slices(frame: bytes) -> list[bytes]:
        await next(left).wait()
        return [framed(frame)]

    owner = Owner(lambda frame: started(in_slices(frame)) if frame.startswith(b"long") else [framed(frame)])
    peer = await connect(owner)
    peer.writer.write(b"".join(framed(b"long %d" % number) for number in range(3)))
    for number, turn in enumerate(turns):
        await wait_until(lambda number=number: len(owner.frames) == number + 1)
        turn.set()
        assert await peer.receive() == b"long %d" % number
    peer.writer.write(framed(b"last"))
    assert await peer.receive() == b"last"


async def test_a_connection_that_closes_while_its_request_is_handled_in_slices_frees_the_budget(connect) -> None:
    async def never() -> list[bytes]:
        await asyncio.Event().wait()
        return []

    owner = Owner(lambda _frame: started(never()))
    peer = await connect(owner)
    peer.writer.write(framed(bytes(200_000)))
    await wait_until(lambda: len(owner.frames) == 1)
    peer.connection.close()
    assert owner.budget.reserved == 0


async def test_many_large_responses_in_one_read_do_not_come_together_in_memory(connect) -> None:
    owner = Owner(lambda _frame: [framed(bytes(1_000_000))])
    peer = await connect(owner)
    peer.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    peer.reader._transport.pause_reading()  # type: ignore[attr-defined]
    peer.writer.write(framed(b"give") * 100)
    await wait_until(lambda: owner.unsent_bytes > 0)
    await asyncio.sleep(0)

    assert owner.unsent_bytes <= 1_000_004
    peer.reader._transport.resume_reading()  # type: ignore[attr-defined]
    for _ in range(100):
        assert len(await peer.receive()) == 1_000_000
    await wait_until(lambda: owner.unsent_bytes == 0)


async def test_a_peer_that_leaves_too_much_unread_is_given_up(connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla_broker.connection.UNSENT_BYTES_MAX", 3_000_000)
    asked: list[asyncio.Future] = []

    def answer(_frame: bytes) -> Outcome:
        asked.append(asyncio.get_running_loop().create_future())
        return asked[-1]

    owner = Owner(answer)
    peer = await connect(owner)
    peer.reader._transport.pause_reading()  # type: ignore[attr-defined]
    peer.writer.write(framed(b"give") * 8)
    await wait_until(lambda: len(asked) == 8)
    for waiting in asked:
        waiting.set_result([framed(bytes(1_000_000))])

    await wait_until(lambda: owner.closed == 1)
    assert owner.unsent_bytes == 0


async def test_a_frame_that_finds_no_room_to_grow_goes_on_when_there_is_some(connect) -> None:
    owner = Owner(lambda frame: [framed(frame[:5])])
    owner.budget = RequestBudget(500_000)
    assert owner.budget.reserve("the oldest", 450_000)
    peer = await connect(owner)
    peer.writer.write(framed(b"large" + bytes(700_000)))
    await wait_until(lambda: bool(owner.waiting))
    assert not owner.frames

    owner.budget.release("the oldest")
    owner.budget_released()
    assert await peer.receive() == b"large"
