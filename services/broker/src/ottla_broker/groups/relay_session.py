"""One open stream to a coordinator: what was asked through it and is not answered yet, in both directions.

A session ends with its stream. What then still waits for an answer gets NOT_COORDINATOR, upon which clients look for
the coordinator again; whether the coordinator had done what it was asked nobody here can know.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import structlog
from kio.schema.errors import ErrorCode

from ottla_broker.groups.errors import NotCoordinator, VerificationNeeded
from ottla_broker.groups.marker_writing import refused_markers
from ottla_broker.groups.shard_log_access import ShardLogAccess
from ottla_broker.groups.topic_rights import RelayedClient, TopicRights
from ottla_core.background import start_detached
from ottla_core.callback_answer import CallbackAnswer
from ottla_core.rpc.frame_queue import FrameQueue
from ottla_core.shards import GROUP_TOPIC
from ottla_core.slices import Unfinished, started
from ottla_core.topic_partition import TopicPartition
from ottla_proto.gen.ottla import group_relay_pb2 as pb

WAITING_REQUESTS_MAX = 50_000
"""Requests of clients that one coordinator may owe an answer; a JoinGroup waits as long as its group rebalances."""

UNSENT_BYTES_MAX = 64 * 1024 * 1024
"""How much of what clients ask may wait for a coordinator that reads slowly."""

LOG_REQUESTS_MAX = 4096
"""Appends and reads that one coordinator may have under way; it has few per shard."""

READS_AT_ONCE_MAX = 4
"""Reads of one coordinator of which the records are in memory and not among what is to be sent."""

UNSENT_BYTES_BEFORE_READ_MAX = 8 * 1024 * 1024
"""While this much waits to be sent, nothing more is read for the coordinator."""

T = TypeVar("T")

Finish = Callable[[bytes | NotCoordinator], T]
"""Makes the caller's result of a coordinator's answer, or of its loss; may raise instead."""

WriteMarkers = Callable[[pb.MarkersWrite], Coroutine[None, None, pb.MarkersWritten]]
"""Writes the markers that end transactions; answers when every in-sync replica has them."""

logger = structlog.get_logger("groups")


class _Relayed(CallbackAnswer[T]):
    """The answer to a request that was passed on; `abandoned` takes its id when nobody waits for it any more."""

    __slots__ = ("_abandoned", "_finish", "_id")

    def __init__(self, request_id: int, finish: Finish[T], abandoned: Callable[[int], None]) -> None:
        super().__init__()
        self._id = request_id
        self._finish = finish
        self._abandoned = abandoned

    def take(self, answer: bytes | NotCoordinator) -> None:
        """Take the coordinator's answer, or its loss."""
        try:
            result = self._finish(answer)
        except Exception as error:  # noqa: BLE001  whoever waits for the answer deals with it
            self.fail(error)
        else:
            self.settle(result)

    def abandon(self) -> None:
        """Have the answer dropped when it comes."""
        self._abandoned(self._id)


class RelaySession:
    """The exchange over one open stream.

    Attributes:
        outgoing: what is to be sent.
        relayed_count: requests of clients that were passed on.
    """

    def __init__(
        self,
        shard_log: ShardLogAccess,
        topic_rights: TopicRights | None = None,
        write_markers: WriteMarkers | None = None,
    ) -> None:
        self.outgoing = FrameQueue()
        self._topic_rights = topic_rights
        self._write_markers = write_markers
        self.relayed_count = 0
        self._shard_log = shard_log
        self._last_id = 0
        self._waiting: dict[int, _Relayed[Any]] = {}
        self._log_requests: set[asyncio.Task[None]] = set()
        self._reads = asyncio.Semaphore(READS_AT_ONCE_MAX)

    @property
    def waiting_count(self) -> int:
        """Requests of clients that are not answered yet."""
        return len(self._waiting)

    def ask(
        self,
        shard: TopicPartition,
        frame: bytes,
        client_host: str,
        topics_revision: int,
        finish: Finish[T],
        *,
        only_forward: bool = False,
        sets_all_back: bool = False,
        client: RelayedClient | None = None,
        fresh_producer_id: int | None = None,
        verification_guard: int | None = None,
    ) -> CallbackAnswer[T]:
        """Pass a client's request on.

        Args:
            shard: which shard is asked, or `ALL_SHARDS` of a topic.
            frame: the request without its length.
            client_host: where the client is.
            topics_revision: when topics have last come or gone, as far as this broker knows.
            finish: makes the result, or the error, of the coordinator's answer or of its loss. (A task that awaits
                the answer would cost more than all the rest of the way.)
            only_forward: of an OffsetCommit, that no offset goes back.
            sets_all_back: of an OffsetCommit, that no group of the shard is to be further.
            client: of a ConsumerGroupHeartbeat, who the client is, unless it may see all topics.
            fresh_producer_id: of requests about transactions, a producer id to use if one is needed.
            verification_guard: of a TxnOffsetCommit, the guard of the `VerificationNeeded` that answered it before.

        Awaiting the answer raises `VerificationNeeded` where the coordinator answers with a guard.

        Raises:
            NotCoordinator: too much waits for the coordinator.
        """
        if len(self._waiting) >= WAITING_REQUESTS_MAX or self.outgoing.size_bytes >= UNSENT_BYTES_MAX:
            raise NotCoordinator(
                f"{len(self._waiting)} requests and {self.outgoing.size_bytes} bytes wait for the coordinator already"
            )
        self._last_id += 1
        request_id = self._last_id
        relayed = self._waiting[request_id] = _Relayed(request_id, finish, self._forget)
        self.relayed_count += 1
        added = self.outgoing.add(len(frame))
        added.id = request_id
        request = added.group_request
        request.shard = shard.partition
        if shard.topic != GROUP_TOPIC:
            request.topic = shard.topic
        request.frame = frame
        request.client_host = client_host
        request.topics_revision = topics_revision
        if only_forward:
            request.only_forward = True
        if sets_all_back:
            request.sets_all_back = True
        if client is not None:
            request.principal.kind, request.principal.name = client.principal.kind, client.principal.name
            request.rights_version = client.rights_version
        if fresh_producer_id is not None:
            request.fresh_producer_id = fresh_producer_id
        if verification_guard is not None:
            request.verification_guard = verification_guard
        return relayed

    def receive(self, frames: pb.Frames) -> None:
        """Take in what the coordinator has sent."""
        for frame in frames.frames:
            match frame.WhichOneof("content"):
                case "group_response":
                    waiting = self._waiting.pop(frame.id, None)
                    if waiting is not None:
                        _answer(waiting, frame.group_response)
                case "topic_rights_question" if self._topic_rights is not None:
                    if len(self._log_requests) < LOG_REQUESTS_MAX:  # else the coordinator goes on without an answer
                        self._start(self._tell_rights(frame.id, self._topic_rights, frame.topic_rights_question))
                case "markers_write" if self._write_markers is not None:
                    self._begin_writing(frame.id, self._write_markers, frame.markers_write)
                case "log_append" | "log_read" if len(self._log_requests) >= LOG_REQUESTS_MAX:
                    self.outgoing.put(_overloaded(frame))
                case "log_append":
                    self._append(frame.id, frame.log_append)
                case "log_read":
                    self._start(self._read(frame.id, frame.log_read))
                case "log_ends_question":
                    ends = self._shard_log.ends(frame.log_ends_question)
                    self.outgoing.put(pb.Frame(id=frame.id, log_ends=ends))
                case other:
                    logger.warning("a coordinator sent what a broker does not understand", content=other)

    def end(self, reason: str) -> None:
        """Give up what waits for the coordinator and what the coordinator waits for."""
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            each.take(NotCoordinator(reason))
        for task in self._log_requests:
            task.cancel()

    def _forget(self, request_id: int) -> None:
        self._waiting.pop(request_id, None)

    def _start(self, answering: Coroutine[None, None, None]) -> None:
        """Serve a request of the coordinator beside the others; they begin in the order in which they came."""
        task = start_detached("shard log request", answering)
        self._log_requests.add(task)
        task.add_done_callback(self._log_requests.discard)

    def _append(self, request_id: int, request: pb.LogAppend) -> None:
        """Append, and answer at once where nothing has to be waited for: a task costs as much as the append."""
        answer = self._shard_log.append(request)
        if isinstance(answer, pb.LogAppended):
            self.outgoing.put(pb.Frame(id=request_id, log_appended=answer))
        else:
            self._start(self._append_later(request_id, answer))

    async def _append_later(self, request_id: int, answer: Coroutine[None, None, pb.LogAppended]) -> None:
        self.outgoing.put(pb.Frame(id=request_id, log_appended=await answer))

    async def _tell_rights(self, request_id: int, rights: TopicRights, question: pb.TopicRightsQuestion) -> None:
        self.outgoing.put(pb.Frame(id=request_id, topic_rights=await rights.answer(question)))

    def _begin_writing(self, request_id: int, write: WriteMarkers, request: pb.MarkersWrite) -> None:
        """Write markers, and answer at once where nothing has to be waited for.

        In a task of their own they would come later than the answer behind them, upon which a client goes on.
        """
        if len(self._log_requests) >= LOG_REQUESTS_MAX:
            refused = refused_markers(request, ErrorCode.request_timed_out)
            self.outgoing.put(pb.Frame(id=request_id, markers_written=refused))
            return
        answer = started(write(request))
        if isinstance(answer, Unfinished):
            self._start(self._write_later(request_id, answer))
        else:
            self.outgoing.put(pb.Frame(id=request_id, markers_written=answer))

    async def _write_later(self, request_id: int, answer: Unfinished[pb.MarkersWritten]) -> None:
        self.outgoing.put(pb.Frame(id=request_id, markers_written=await answer))

    async def _read(self, request_id: int, request: pb.LogRead) -> None:
        async with self._reads:
            await self.outgoing.wait_until_below(UNSENT_BYTES_BEFORE_READ_MAX)
            self.outgoing.put(pb.Frame(id=request_id, log_records=await self._shard_log.read(request)))


def _answer(waiting: _Relayed[Any], response: pb.GroupResponse) -> None:
    answer = response.frame
    if not answer and response.HasField("verification_guard"):
        waiting.fail(VerificationNeeded(response.verification_guard))
    else:
        waiting.take(answer)


def _overloaded(frame: pb.Frame) -> pb.Frame:
    """Return the answer to a request of the coordinator that is one too many; it may ask again."""
    error = ErrorCode.request_timed_out.value
    message = f"the broker serves {LOG_REQUESTS_MAX} requests of this coordinator already"
    if frame.WhichOneof("content") == "log_append":
        return pb.Frame(id=frame.id, log_appended=pb.LogAppended(error_code=error, error_message=message))
    return pb.Frame(id=frame.id, log_records=pb.LogRecords(error_code=error, error_message=message))
