"""A broker as a group coordinator sees it: the other end of its stream, over real gRPC, with logs in memory.

It asks what a test asks in the name of clients, and keeps partitions of `__consumer_offsets`. The logs outlive a
broker and check producers by the real broker's rules. Faults are attributes.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from grpc import aio
from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from ottla_broker.log.producers.producer_state import ProducerStates
from ottla_core.errors import InvalidProducerEpoch, InvalidRecord, KafkaError, NotLeaderOrFollower
from ottla_core.rpc.dialing import dial
from ottla_core.rpc.frame_queue import MESSAGE_BYTES_MAX, FrameQueue
from ottla_core.rpc_identity import GROUP_COORDINATOR, RpcIdentity
from ottla_core.shards import GROUP_TOPIC
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.messages import RequestHeader, message_codec
from ottla_core.wire.record_batch import (
    NO_SEQUENCE,
    PREFIX,
    RecordBatchHeader,
    batch_prefix,
    crc_is_valid,
    iterate_batches,
    parse_header,
)
from ottla_core.wire.records import iterate_records
from ottla_group_coordinator.records import RecordKey, RecordValue, decode_key, decode_value
from ottla_proto.gen.ottla import group_relay_pb2 as pb
from ottla_proto.gen.ottla.group_relay_pb2_grpc import GroupRelayStub

CLIENT_HOST = "/10.0.0.1"
LEADER_EPOCH = 0
ANSWER_DEADLINE_S = 30.0


class FakeShardLog:
    """One partition: its batches as they were appended, with offsets."""

    def __init__(self, shard: int) -> None:
        self.batches: list[tuple[RecordBatchHeader, bytes]] = []
        self.log_start_offset = 0
        self.end_offset = 0
        self._producers = ProducerStates(TopicPartition(GROUP_TOPIC, shard))
        self.transaction_epochs: dict[int, int] = {}

    def append(self, batch: bytes, preceding: Sequence[bytes] = (), *, cut_after: int | None = None) -> int:
        """Store a batch and what precedes it, once, and return its base offset.

        With `cut_after` only so many of those that precede it get into the log, as where a leader dies.
        """
        header = self._checked(batch)
        duplicate = self._producers.check(header)
        if duplicate is not None:
            return duplicate.base_offset
        for each in preceding[:cut_after]:
            self._append_transactional(each)
        if cut_after is not None:
            raise NotLeaderOrFollower("the leader has died")
        return self._store(header, batch)

    def _checked(self, batch: bytes) -> RecordBatchHeader:
        header = parse_header(batch)
        assert crc_is_valid(batch, header), "the coordinator wrote a batch whose CRC is wrong"
        assert header.size_bytes == len(batch), "the coordinator wrote more or less than a batch"
        return header

    def _append_transactional(self, batch: bytes) -> None:
        """Store a batch that belongs to a transaction, or refuse it for its epoch as logs do."""
        header = self._checked(batch)
        assert header.is_transactional
        assert header.base_sequence == NO_SEQUENCE
        if header.producer_epoch < self.transaction_epochs.get(header.producer_id, -1):
            raise InvalidRecord(f"producer {header.producer_id} is at a later epoch")
        self.transaction_epochs[header.producer_id] = header.producer_epoch
        self._store(header, batch)

    def _store(self, header: RecordBatchHeader, batch: bytes) -> int:
        prefix = batch_prefix(self.end_offset, header.batch_length, LEADER_EPOCH)
        stored = prefix + batch[PREFIX.size :]
        header = parse_header(stored)
        self.batches.append((header, stored))
        if not header.is_transactional:
            self._producers.record(header, header.last_offset, header.max_timestamp)
        base_offset, self.end_offset = self.end_offset, header.next_offset
        return base_offset

    @property
    def newest_epoch(self) -> int:
        """The producer epoch of the last batch of an owner."""
        return next(header.producer_epoch for header, _ in reversed(self.batches) if not header.is_transactional)

    def put(self, *batches: bytes) -> None:
        """Let batches of another time and producer stand in the log, unchecked."""
        for batch in batches:
            header = parse_header(batch)
            stored = batch_prefix(self.end_offset, header.batch_length, LEADER_EPOCH) + batch[PREFIX.size :]
            header = parse_header(stored)
            self.batches.append((header, stored))
            self.end_offset = header.next_offset

    def forget_last_batch(self) -> None:
        """Lose what was stored last, as a broker may whose host lost power."""
        header, _ = self.batches.pop()
        self.end_offset = header.base_offset
        self._producers = ProducerStates(self._producers.topic_partition)
        for kept, _ in self.batches:
            if not kept.is_transactional:
                self._producers.replay(kept)

    def read(self, offset: int, bytes_max: int) -> bytes:
        """Return whole batches, at least one if there is any."""
        found = b""
        for header, batch in self.batches:
            if header.last_offset >= offset:
                if found and len(found) + len(batch) > bytes_max:
                    break
                found += batch
        return found

    def records(self) -> list[tuple[RecordKey | None, RecordValue | None]]:
        """Return every record, decoded."""
        return [
            (key, None if record.value is None or key is None else decode_value(key, record.value))
            for header, batch in self.batches
            if not header.is_control
            for record in iterate_records(batch, header)
            for key in (decode_key(record.key or b""),)
        ]


class FakeRelayBroker:
    """A broker with a stream to one coordinator.

    Attributes:
        logs: of shards of groups, by partition; may be shared by brokers.
        other_logs: of shards of other topics.
        append_errors: what the next appends are refused with, in order.
        refuses_with: what every append is refused with, or None.
        cut_after: of what precedes the next batch that has anything before it, how much gets into the log before the
            broker dies.
        appends: whether appends are served; those that come meanwhile are served when it is set again.
        answers_appends: whether what was stored is told.
        reads: whether reads are served.
        unshown_offsets: how many offsets at the end reads do not show, as if they were not replicated yet.
        append_count: appends that were asked for.
        read_offsets: offsets of the reads that were asked for.
        message_sizes: how many frames came in each message.
        topics_revision: when topics have last come or gone, as far as it says that it knows.
    """

    def __init__(self, broker_id: int, epoch: int, logs: defaultdict[int, FakeShardLog] | None = None) -> None:
        self.id = broker_id
        self.epoch = epoch
        self.logs = new_logs() if logs is None else logs
        self.other_logs: defaultdict[str, defaultdict[int, FakeShardLog]] = defaultdict(new_logs)
        self.append_errors: list[ErrorCode] = []
        self.refuses_with: ErrorCode | None = None
        self.cut_after: int | None = None
        self.appends = asyncio.Event()
        self.appends.set()
        self.answers_appends = True
        self.reads = asyncio.Event()
        self.reads.set()
        self.unshown_offsets = 0
        self.append_count = 0
        self.read_offsets: list[int] = []
        self.message_sizes: list[int] = []
        self.arrived: list[str | None] = []
        self.topics_revision = 0
        self.ended = asyncio.Event()
        self._outgoing = FrameQueue()
        self._asked: dict[int, asyncio.Future[pb.GroupResponse]] = {}
        self._last_id = 0
        self._reading = asyncio.Event()
        self._reading.set()

    @asynccontextmanager
    async def connected(self, address: str) -> AsyncIterator["FakeRelayBroker"]:
        """Keep a stream open for as long as the context lasts; `ended` tells when the coordinator ends it before."""
        async with dial(address, RpcIdentity(GROUP_COORDINATOR, 1), message_bytes_max=MESSAGE_BYTES_MAX) as channel:
            metadata = (("broker-id", str(self.id)), ("broker-epoch", str(self.epoch)))
            call = GroupRelayStub(channel).Relay(metadata=metadata)
            await call.initial_metadata()
            self._outgoing = FrameQueue()
            self.ended.clear()
            tasks = [asyncio.create_task(self._send(call)), asyncio.create_task(self._receive(call))]
            try:
                yield self
            finally:
                call.cancel()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def ask_later(
        self, shard: int, api_version: int, message: Any, *, client_id: str = "client", **relayed: Any
    ) -> "Asked":
        """Ask in the name of a client."""
        api_key: int = message.__api_key__
        self._last_id += 1
        header = RequestHeader(api_key, api_version, self._last_id, client_id, 0)
        frame = message_codec(api_key, api_version).encode_request(header, message)
        return Asked(self.send_frame(shard, frame, **relayed), api_key, api_version, self._last_id)

    async def ask(self, shard: int, api_version: int, message: Any, **relayed: Any) -> Any:
        """Ask in the name of a client, and return the response; `relayed` are more fields of the relay's message."""
        return await self.ask_later(shard, api_version, message, **relayed).response()

    def send_frame(self, shard: int, frame: bytes, **relayed: Any) -> asyncio.Future[pb.GroupResponse]:
        """Send a request as it is; the frame's id is the number of requests so far."""
        answered: asyncio.Future[pb.GroupResponse] = asyncio.get_running_loop().create_future()
        self._asked[self._last_id] = answered
        request = pb.GroupRequest(
            shard=shard, frame=frame, client_host=CLIENT_HOST, topics_revision=self.topics_revision, **relayed
        )
        self._outgoing.put(pb.Frame(id=self._last_id, group_request=request))
        return answered

    def stop_reading(self) -> None:
        """Read nothing more from the stream."""
        self._reading.clear()

    async def _send(self, call: aio.StreamStreamCall[pb.Frames, pb.Frames]) -> None:
        while True:
            await call.write(await self._outgoing.take())

    async def _receive(self, call: aio.StreamStreamCall[pb.Frames, pb.Frames]) -> None:
        serving: set[asyncio.Task[None]] = set()
        try:
            async for frames in call:
                self.message_sizes.append(len(frames.frames))
                for frame in frames.frames:
                    self.arrived.append(frame.WhichOneof("content"))
                    if frame.WhichOneof("content") == "group_response":
                        self._settle(frame)
                    else:
                        serving.add(asyncio.create_task(self._serve(frame)))
                await self._reading.wait()
        finally:
            self.ended.set()
            for task in serving:
                task.cancel()

    def _settle(self, frame: pb.Frame) -> None:
        answered = self._asked.pop(frame.id)
        if not answered.done():
            answered.set_result(frame.group_response)

    async def _serve(self, frame: pb.Frame) -> None:
        outgoing = self._outgoing
        if frame.WhichOneof("content") == "log_append":
            self.append_count += 1
            await self.appends.wait()
            answer = self._append(frame.log_append)
            if self.answers_appends:
                outgoing.put(pb.Frame(id=frame.id, log_appended=answer))
        else:
            self.read_offsets.append(frame.log_read.offset)
            await self.reads.wait()
            outgoing.put(pb.Frame(id=frame.id, log_records=self._read(frame.log_read)))

    def _log(self, request: pb.LogAppend | pb.LogRead) -> FakeShardLog:
        return (self.logs if not request.topic else self.other_logs[request.topic])[request.shard]

    def _append(self, request: pb.LogAppend) -> pb.LogAppended:
        code = self.append_errors.pop(0) if self.append_errors else self.refuses_with
        if code is not None:
            return pb.LogAppended(error_code=code.value, error_message="as the test says", base_offset=-1)
        try:
            log, cut_after = self._log(request), self.cut_after if request.preceding_batches else None
            self.cut_after = None if request.preceding_batches else self.cut_after
            return pb.LogAppended(
                base_offset=log.append(request.batch, request.preceding_batches, cut_after=cut_after)
            )
        except InvalidProducerEpoch as error:
            return pb.LogAppended(
                error_code=error.code.value, base_offset=-1, seen_producer_epoch=self._log(request).newest_epoch
            )
        except KafkaError as error:
            return pb.LogAppended(error_code=error.code.value, error_message=error.message, base_offset=-1)

    def _read(self, request: pb.LogRead) -> pb.LogRecords:
        log = self._log(request)
        high_watermark = log.end_offset - self.unshown_offsets
        answer = pb.LogRecords(log_start_offset=log.log_start_offset, high_watermark=high_watermark)
        if not log.log_start_offset <= request.offset <= high_watermark:
            answer.error_code = ErrorCode.offset_out_of_range.value
        else:
            found = log.read(request.offset, request.bytes_max)
            answer.batches = b"".join(
                bytes(batch) for header, batch in iterate_batches(found) if header.last_offset < high_watermark
            )
        return answer


class Asked:
    """A request that was sent."""

    def __init__(
        self, answered: asyncio.Future[pb.GroupResponse], api_key: int, api_version: int, correlation_id: int
    ) -> None:
        self._answered = answered
        self._codec = message_codec(api_key, api_version)
        self._correlation_id = correlation_id

    @property
    def is_answered(self) -> bool:
        return self._answered.done()

    async def guard(self) -> int:
        """The guard that is answered in place of a response."""
        async with asyncio.timeout(ANSWER_DEADLINE_S):
            answer = await self._answered
        assert answer.HasField("verification_guard")
        assert not answer.frame
        return answer.verification_guard

    async def response(self) -> Any:
        async with asyncio.timeout(ANSWER_DEADLINE_S):
            answer = await self._answered
        assert not answer.HasField("verification_guard")
        frame = answer.frame
        assert int.from_bytes(frame[:4]) == len(frame) - 4
        assert int.from_bytes(frame[4:8]) == self._correlation_id
        response: Entity = self._codec.read_response(frame)
        return response


def new_logs() -> defaultdict[int, FakeShardLog]:
    """Logs that are made when first used."""
    logs: defaultdict[int, FakeShardLog] = _Logs()
    return logs


class _Logs(defaultdict[int, FakeShardLog]):
    def __missing__(self, shard: int) -> FakeShardLog:
        log = self[shard] = FakeShardLog(shard)
        return log
