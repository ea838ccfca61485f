"""A group coordinator that does what a test says: the other end of brokers' streams, over real gRPC."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from grpc import aio

from ottla_core.cluster.state.model import Member, Role
from ottla_core.rpc.frame_queue import FrameQueue
from ottla_core.rpc.server import SERVER_OPTIONS
from ottla_proto.gen.ottla import group_relay_pb2 as pb
from ottla_proto.gen.ottla.group_relay_pb2_grpc import GroupRelayServicer, add_GroupRelayServicer_to_server

Answer = Callable[[pb.GroupRequest], bytes | None]
"""What a request is answered with; None leaves it waiting."""


def echo(request: pb.GroupRequest) -> bytes | None:
    return b"answer to " + request.frame


class ScriptedCoordinator(GroupRelayServicer):
    """The streams that brokers have opened, and what came through them.

    Attributes:
        answer: decides on each request.
        reads: whether anything is read from the streams.
        metadata: of every stream that was opened.
        requests: everything that was asked, with the ids of the frames.
        message_sizes: how many frames came in each message.
    """

    def __init__(self, coordinator_id: int, answer: Answer = echo) -> None:
        self.id = coordinator_id
        self.answer = answer
        self.reads = asyncio.Event()
        self.reads.set()
        self.metadata: list[dict[str, Any]] = []
        self.requests: list[tuple[int, pb.GroupRequest]] = []
        self.message_sizes: list[int] = []
        self._outgoing: FrameQueue | None = None
        self._asked: dict[int, asyncio.Future[pb.Frame]] = {}
        self._ending = asyncio.Event()
        self._server: aio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        """Listen, on the same port as before."""
        self._ending = asyncio.Event()
        self._server = aio.server(options=SERVER_OPTIONS)
        add_GroupRelayServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()

    async def stop(self) -> None:
        """Break every stream and listen no more."""
        self._ending.set()
        if self._server is not None:
            await self._server.stop(None)

    def member(self, *, epoch: int = 1) -> Member:
        """This coordinator as the cluster state shows it."""
        return Member(
            role=Role.GROUP_COORDINATOR,
            id=self.id,
            epoch=epoch,
            incarnation=UUID(int=epoch),
            rpc_address=f"127.0.0.1:{self.port}",
            version="test",
        )

    def respond(self, request_id: int, frame: bytes) -> None:
        """Answer a request that was left waiting."""
        assert self._outgoing is not None
        self._outgoing.put(pb.Frame(id=request_id, group_response=pb.GroupResponse(frame=frame)))

    def respond_with_guard(self, request_id: int, guard: int) -> None:
        """Answer a request that was left waiting with a guard in place of a frame."""
        assert self._outgoing is not None
        self._outgoing.put(pb.Frame(id=request_id, group_response=pb.GroupResponse(verification_guard=guard)))

    async def append(self, shard: int, batch: bytes) -> pb.LogAppended:
        """Have the broker append."""
        asked = await self._ask(log_append=pb.LogAppend(shard=shard, batch=batch))
        return asked.log_appended

    async def read(self, shard: int, offset: int, bytes_max: int = 1 << 20) -> pb.LogRecords:
        """Have the broker read."""
        asked = await self._ask(log_read=pb.LogRead(shard=shard, offset=offset, bytes_max=bytes_max))
        return asked.log_records

    async def write_markers(self, *markers: pb.MarkersWrite.Marker) -> pb.MarkersWritten:
        """Have the broker write markers."""
        asked = await self._ask(markers_write=pb.MarkersWrite(markers=markers))
        return asked.markers_written

    async def _ask(self, **content: Any) -> pb.Frame:
        assert self._outgoing is not None
        request_id = len(self._asked) + 1
        self._asked[request_id] = asyncio.get_running_loop().create_future()
        self._outgoing.put(pb.Frame(id=request_id, **content))
        async with asyncio.timeout(10):
            return await self._asked[request_id]

    async def Relay(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]  # noqa: N802
        self.metadata.append(dict(context.invocation_metadata()))
        self._outgoing = outgoing = FrameQueue()
        tasks = [
            asyncio.create_task(self._receive(request_iterator)),
            asyncio.create_task(_send(outgoing, context)),
            asyncio.create_task(self._ending.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _receive(self, messages: Any) -> None:
        await self.reads.wait()
        async for message in messages:
            self.message_sizes.append(len(message.frames))
            for frame in message.frames:
                self._take(frame)
            await self.reads.wait()

    def _take(self, frame: pb.Frame) -> None:
        if frame.WhichOneof("content") != "group_request":
            self._asked[frame.id].set_result(frame)
            return
        self.requests.append((frame.id, frame.group_request))
        answer = self.answer(frame.group_request)
        if answer is not None:
            self.respond(frame.id, answer)


async def _send(outgoing: FrameQueue, context: Any) -> None:
    while True:
        await context.write(await outgoing.take())


@asynccontextmanager
async def scripted_coordinator(coordinator_id: int, answer: Answer = echo) -> AsyncIterator[ScriptedCoordinator]:
    """A coordinator that listens."""
    coordinator = ScriptedCoordinator(coordinator_id, answer)
    await coordinator.start()
    try:
        yield coordinator
    finally:
        await coordinator.stop()
