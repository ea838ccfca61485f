"""The coordinator's end of one broker's stream.

Both sides ask and answer on it: the broker brings clients' requests, the coordinator wants batches appended and read.

Neither side stops reading because it cannot send, or two full streams could wait for each other forever. A broker
that does not read what it is sent loses the stream instead, and may open another.
"""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Sequence
from typing import Any

import structlog

from ottla_core.background import start_awaited
from ottla_core.callback_answer import CallbackAnswer
from ottla_core.errors import OttlaError
from ottla_core.rpc.frame_queue import FrameQueue
from ottla_core.rpc.group_relay import topic_field
from ottla_core.topic_partition import TopicPartition
from ottla_proto.gen.ottla import group_relay_pb2 as pb

UNSENT_BYTES_MAX = 64 * 1024 * 1024
"""What may wait to be sent before the stream is given up."""

FRAMES_PER_SLICE = 128
"""How many frames are taken before others may run."""

log = structlog.get_logger("relay")


class StreamClosed(OttlaError):
    """The stream has ended; what was asked on it may have happened or not."""


OnRequest = Callable[["RelayStream", int, pb.GroupRequest], None]
"""Takes a client's request and the id of its frame; `RelayStream.answer` answers it, now or later."""


class RelayStream:
    """A stream, from when a broker opens it until either side ends it.

    Args:
        broker_id: whose it is.
        broker_epoch: under which registration.
        on_request: called for every request; must not block or raise.

    Attributes:
        closed: set when it has ended or shall end.
    """

    def __init__(self, broker_id: int, broker_epoch: int, on_request: OnRequest) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.closed = asyncio.Event()
        self._on_request = on_request
        self._asked: dict[int, asyncio.Future[Any] | CallbackAnswer[Any]] = {}
        self._last_ask = 0
        self._outgoing = FrameQueue()
        self._drained = asyncio.Event()
        self._drained.set()

    def answer(self, frame_id: int, frame: bytes) -> None:
        """Answer a client's request; has no effect when the stream has ended."""
        if self.closed.is_set():
            return
        added = self._outgoing.add(len(frame))
        added.id = frame_id
        added.group_response.frame = frame
        self._after_adding()

    def answer_with_guard(self, frame_id: int, guard: int) -> None:
        """Answer a client's request with the guard under which the broker is to ask again."""
        self._put(pb.Frame(id=frame_id, group_response=pb.GroupResponse(verification_guard=guard)))

    def append(
        self, shard: TopicPartition, batch: bytes, preceding: Sequence[bytes] = ()
    ) -> asyncio.Future[pb.LogAppended]:
        """Ask for a batch to be appended, and right before it what precedes it.

        The future fails with `StreamClosed` if no answer can come any more.
        """
        asked: asyncio.Future[pb.LogAppended] = asyncio.get_running_loop().create_future()
        question = self._question(asked, len(shard.topic) + len(batch) + sum(map(len, preceding))).log_append
        question.shard = shard.partition
        question.topic = topic_field(shard)
        question.batch = batch
        question.preceding_batches.extend(preceding)
        return asked

    def read(self, shard: TopicPartition, offset: int, bytes_max: int) -> asyncio.Future[pb.LogRecords]:
        """Ask for batches from an offset on; the future fails with `StreamClosed` if no answer can come any more."""
        asked = pb.LogRead(shard=shard.partition, topic=topic_field(shard), offset=offset, bytes_max=bytes_max)
        return self._ask(pb.Frame(log_read=asked))

    def ask_ends(self, question: pb.LogEndsQuestion) -> asyncio.Future[pb.LogEnds]:
        """Ask how far partitions go; the future fails with `StreamClosed` if no answer can come any more.

        A broker of the first release does not answer, so a future that is given up is forgotten here as well.
        """
        asked = self._ask(pb.Frame(log_ends_question=question))
        number = self._last_ask
        asked.add_done_callback(lambda _: self._asked.pop(number, None))
        return asked

    def ask_rights(self, question: pb.TopicRightsQuestion) -> asyncio.Future[pb.TopicRights]:
        """Ask which topics a client may describe; the future fails with `StreamClosed` if the stream ends before.

        A future that is given up is forgotten here as well.
        """
        asked = self._ask(pb.Frame(topic_rights_question=question))
        number = self._last_ask
        asked.add_done_callback(lambda _: self._asked.pop(number, None))
        return asked

    def write_markers(self, markers: pb.MarkersWrite) -> CallbackAnswer[pb.MarkersWritten]:
        """Ask for markers to be written; the answer fails with `StreamClosed` if the stream ends before.

        It is told before any request behind it is taken, which may be of a producer whose last transaction is
        complete by it.
        """
        asked: CallbackAnswer[pb.MarkersWritten] = CallbackAnswer()
        self._question(asked, markers.ByteSize()).markers_write.CopyFrom(markers)
        return asked

    def give_up(self, asked: CallbackAnswer[Any], error: OttlaError) -> None:
        """Fail an answer that is not waited for any longer, and forget what was asked."""
        for number, each in self._asked.items():
            if each is asked:
                del self._asked[number]
                break
        asked.fail(error)

    async def run(self, messages: AsyncIterable[pb.Frames], write: Callable[[pb.Frames], Awaitable[None]]) -> None:
        """Carry frames both ways until the broker ends the stream, it breaks, or it is closed."""
        parts: tuple[Coroutine[Any, Any, object], ...] = (
            self._receive(messages),
            self._send(write),
            self.closed.wait(),
        )
        tasks = [start_awaited("relay stream", part) for part in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def drain(self) -> None:
        """Return when everything that was to be sent has been handed to gRPC, or the stream has ended."""
        await self._drained.wait()

    def close(self) -> None:
        """End the stream; requests to the broker end with an error."""
        if self.closed.is_set():
            return
        self.closed.set()
        self._drained.set()
        asked, self._asked = self._asked, {}
        for each in asked.values():
            _fail(each, self._closed_error())

    def _closed_error(self) -> StreamClosed:
        return StreamClosed(f"the stream of broker {self.broker_id} has ended")

    def _ask(self, frame: pb.Frame) -> asyncio.Future[Any]:
        asked: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._question(asked, frame.ByteSize()).MergeFrom(frame)
        return asked

    def _question(self, asked: asyncio.Future[Any] | CallbackAnswer[Any], payload_bytes: int) -> pb.Frame:
        """Return the frame of a question, to be filled in before anything else runs.

        Where the stream has ended it goes nowhere, and the answer has failed.
        """
        if self.closed.is_set():
            _fail(asked, self._closed_error())
            return pb.Frame()
        self._last_ask += 1
        self._asked[self._last_ask] = asked
        frame = self._outgoing.add(payload_bytes)
        frame.id = self._last_ask
        self._after_adding()
        return frame

    def _put(self, frame: pb.Frame) -> None:
        if self.closed.is_set():
            return
        self._outgoing.put(frame)
        self._after_adding()

    def _after_adding(self) -> None:
        self._drained.clear()
        if self._outgoing.size_bytes > UNSENT_BYTES_MAX:
            log.error("broker does not read what it is sent; its stream ends", broker=self.broker_id)
            self.close()

    async def _receive(self, messages: AsyncIterable[pb.Frames]) -> None:
        async for message in messages:
            for number, frame in enumerate(message.frames, start=1):
                self._take(frame)
                if number % FRAMES_PER_SLICE == 0:
                    await asyncio.sleep(0)

    def _take(self, frame: pb.Frame) -> None:
        match frame.WhichOneof("content"):
            case "group_request":
                self._on_request(self, frame.id, frame.group_request)
            case "log_appended":
                self._settle(frame.id, frame.log_appended)
            case "log_records":
                self._settle(frame.id, frame.log_records)
            case "log_ends":
                self._settle(frame.id, frame.log_ends)
            case "topic_rights":
                self._settle(frame.id, frame.topic_rights)
            case "markers_written":
                self._settle(frame.id, frame.markers_written)
            case other:
                log.warning("unexpected frame is ignored", broker=self.broker_id, content=other)

    def _settle(self, ask: int, answer: object) -> None:
        asked = self._asked.pop(ask, None)
        if isinstance(asked, CallbackAnswer):
            asked.settle(answer)
        elif asked is not None and not asked.done():
            asked.set_result(answer)

    async def _send(self, write: Callable[[pb.Frames], Awaitable[None]]) -> None:
        while True:
            await write(await self._outgoing.take())
            if not self._outgoing:
                self._drained.set()


def _fail(asked: asyncio.Future[Any] | CallbackAnswer[Any], error: StreamClosed) -> None:
    if isinstance(asked, CallbackAnswer):
        asked.fail(error)
    elif not asked.done():
        asked.set_exception(error)
