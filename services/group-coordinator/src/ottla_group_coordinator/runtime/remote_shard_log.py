"""A shard's partition as its owner uses it: append and read, by way of the leading broker.

An append is tried until it is stored: the leader may be unknown or change, its stream may end, its disk may be full.
It is always the same batch with the same sequence number that is sent again, and the leader stores it once. Only
three things end it: the lease (then another owner may be at work), the leader's word that there is a later owner, and
a refusal that no repetition would change.

What belongs to transactions goes along with a batch of the sequence, by which the leader recognizes it. A leader may
die behind some of it; the whole is sent again all the same (`shard_batches`).

At most `APPENDS_IN_FLIGHT_MAX` batches are on their way at once, because a leader recognizes only that many as
repetitions (KIP-98).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import structlog
from kio.schema.errors import ErrorCode

from ottla_core.errors import OttlaError
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.record_batch import increment_sequence, parse_header
from ottla_group_coordinator.runtime.relay_stream import RelayStream, StreamClosed
from ottla_group_coordinator.runtime.shard_batches import (
    FENCING_SEQUENCE,
    ShardAppend,
    ShardProducer,
    empty_batch,
    fencing_batch,
)
from ottla_proto.gen.ottla import group_relay_pb2 as pb

APPENDS_IN_FLIGHT_MAX = 5
NO_BYTES = 0
RETRY_PAUSE_S_MIN = 0.02
RETRY_PAUSE_S_MAX = 0.5
CONFIRM_PATIENCE_S = 2.0
"""How long a leader may show less than was stored before it is asked, by an append, whether it has it at all."""
WARNING_PATIENCE_S = 5.0
"""Trouble that is over sooner is not reported: a partition's leader opens the log a moment after it was chosen."""
WARNING_INTERVAL_S = 10.0

FENCED = frozenset({ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced})
SEQUENCE_UNKNOWN = frozenset(
    {
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.unknown_producer_id,
        # Never of a batch of ours that comes again: the log recognizes as many as are in flight. An ownership of an
        # earlier life of the cluster has written under the same producer epoch, if etcd was put back to a snapshot.
        ErrorCode.duplicate_sequence_number,
    }
)
UNSTORABLE = frozenset({ErrorCode.message_too_large, ErrorCode.record_list_too_large, ErrorCode.invalid_record})

log = structlog.get_logger("shard log")


class OwnershipLost(OttlaError):
    """The shard has another owner, or may have; `seen_epoch` is that of the later owner, if the log has said so."""

    def __init__(self, message: str, seen_epoch: int | None = None) -> None:
        super().__init__(message)
        self.seen_epoch = seen_epoch


class SequenceLost(OttlaError):
    """The log has lost batches that were stored; the shard can only be continued by a new ownership."""


class BatchRefused(OttlaError):
    """The log will never store this batch."""


class LeaderMoved(StreamClosed):
    """Another broker leads the partition than the one that was asked."""


class RemoteShardLog:
    """The log of one shard, for one ownership.

    Args:
        shard: the partition.
        producer: the owner.
        is_owner: whether the shard is still ours, by our own clock; asked before everything that is written.
        leader: the stream of the broker that leads the partition, or None while there is none.

    Attributes:
        end_offset: the offset after the last batch that this ownership has stored.
        next_sequence: the sequence number after that batch.
        is_end_in_doubt: whether the log may have more behind `end_offset`, or less before it; `go_behind` finds out.
        is_owner: says whether the shard is still ours.
    """

    def __init__(
        self,
        shard: TopicPartition,
        producer: ShardProducer,
        *,
        is_owner: Callable[[], bool],
        leader: Callable[[], RelayStream | None],
    ) -> None:
        self.shard = shard
        self.producer = producer
        self.end_offset = 0
        self.next_sequence = FENCING_SEQUENCE
        self.is_end_in_doubt = False
        self.is_owner = is_owner
        self._leader = leader
        self._asked: RelayStream | None = None
        self._answers: list[asyncio.Future[Any]] = []
        self._pause_s = RETRY_PAUSE_S_MIN
        self._trouble_since_s: float | None = None
        self._warned_at_s = -WARNING_INTERVAL_S

    def check_owner(self) -> None:
        """See that the shard is still ours.

        Raises:
            OwnershipLost: it may be another's.
        """
        if not self.is_owner():
            raise OwnershipLost(f"the registration under which shard {self.shard} was assigned is over")

    async def fence(self, now_ms: int) -> None:
        """Keep former owners from writing; then `end_offset` is behind all that they wrote.

        Raises:
            OwnershipLost, SequenceLost, BatchRefused: see `append`.
        """
        await self.append([ShardAppend(fencing_batch(self.producer, now_ms))])

    async def go_behind(self, now_ms: int) -> None:
        """Put `end_offset` behind all that the log has, which is everything that was stored for this ownership.

        Of an append that it refused the log may have some of what preceded the batch.

        Raises:
            OwnershipLost, SequenceLost, BatchRefused: see `append`.
        """
        await self.append([ShardAppend(empty_batch(self.producer, self.next_sequence, now_ms))])

    def doubt_end(self) -> None:
        """Take note that the leader shows less than was stored for this ownership.

        If that is nothing but the fence, it is to be stored anew where it is missing. Where there is more, that
        would tell nothing: the log recognizes the fence, whatever it has behind it, and a leader that was just
        elected may show the fence and not yet what follows. It would be overlooked.
        """
        if self.next_sequence == FENCING_SEQUENCE + 1:
            self.next_sequence = FENCING_SEQUENCE
            self.end_offset = 0
        else:
            self.is_end_in_doubt = True

    async def append(self, appends: Sequence[ShardAppend]) -> None:
        """Store batches in their order, however long it takes.

        Raises:
            OwnershipLost: the shard has another owner, or may have.
            SequenceLost: the log does not know what went before.
            BatchRefused: a batch will never be stored; those before it are, and maybe part of what precedes it.
        """
        stored = 0
        while stored < len(appends):
            self.check_owner()
            count = await self._append_window(appends[stored : stored + APPENDS_IN_FLIGHT_MAX])
            stored += count

    async def read(self, offset: int, bytes_max: int) -> pb.LogRecords:
        """Return stored batches from an offset on, however long it takes to reach a leader.

        An offset before the log's start gives no batches and the log's start.

        Raises:
            OwnershipLost: the shard may have another owner.
        """
        while True:
            self.check_owner()
            stream = self._leader()
            if stream is None:
                await self._pause("read", "the leader has no stream")
                continue
            answer = stream.read(self.shard, offset, bytes_max)
            self._asked, self._answers = stream, [answer]
            try:
                records = await answer
            except StreamClosed as error:
                await self._pause("read", str(error))
                continue
            if records.error_code in {ErrorCode.none, ErrorCode.offset_out_of_range}:
                self._trouble_is_over()
                return records
            await self._pause("read", _describe(records))

    async def confirm(self, now_ms: int) -> None:
        """Return when the leader says that nobody has written behind us; a later owner begins by doing that.

        A leader that was just elected may not know yet how much is replicated; one that has lost what was stored
        never will. They differ in what they say when they are to append what follows.

        Raises:
            OwnershipLost: the shard has another owner, or may have.
            SequenceLost: the log lacks what was stored there.
        """
        loop = asyncio.get_running_loop()
        patient_until_s = loop.time() + CONFIRM_PATIENCE_S
        while True:
            records = await self.read(self.end_offset, NO_BYTES)
            if records.high_watermark > self.end_offset:
                raise OwnershipLost(f"somebody has written behind the owner of shard {self.shard}")
            if records.high_watermark == self.end_offset:
                return
            if loop.time() >= patient_until_s:
                await self.append([ShardAppend(empty_batch(self.producer, self.next_sequence, now_ms))])
                return
            await self._pause("confirm", f"the leader shows {records.high_watermark} of {self.end_offset} offsets")

    def on_leaders(self) -> None:
        """Turn to the new leader if there is one; a broker that was cut off may never answer."""
        if self._answers and self._leader() is not self._asked:
            for answer in self._answers:
                if not answer.done():
                    answer.set_exception(LeaderMoved("another broker leads the partition"))

    async def _append_window(self, appends: Sequence[ShardAppend]) -> int:
        """Try to store batches, and return how many were."""
        stream = self._leader()
        if stream is None:
            await self._pause("append", "the leader has no stream")
            return 0
        answers = [stream.append(self.shard, each.batch, each.preceding) for each in appends]
        self._asked, self._answers = stream, list(answers)
        stored = 0
        problem = None
        try:
            for answer, asked in zip(answers, appends, strict=True):
                problem = await self._outcome(answer, asked.batch)
                if problem is not None:
                    break
                stored += 1
        finally:
            self._answers = []
            for answer in answers:
                answer.cancel()
        if problem is None:
            self._trouble_is_over()
        else:
            await self._pause("append", problem)
        return stored

    async def _outcome(self, answer: asyncio.Future[pb.LogAppended], batch: bytes) -> str | None:
        """Return None when the batch is stored, or why it is to be sent again."""
        try:
            appended = await answer
        except StreamClosed as error:
            return str(error)
        code = appended.error_code
        if not code:
            if appended.base_offset < self.end_offset:
                raise SequenceLost(f"the log of shard {self.shard} has lost what was stored before {self.end_offset}")
            header = parse_header(batch)
            offset_count = header.last_offset_delta + 1
            self.end_offset = appended.base_offset + offset_count
            self.next_sequence = increment_sequence(header.base_sequence, offset_count)
            self.is_end_in_doubt = False
            return None
        if code in FENCED:
            seen_epoch = appended.seen_producer_epoch if appended.HasField("seen_producer_epoch") else None
            raise OwnershipLost(f"shard {self.shard} has a later owner: {_describe(appended)}", seen_epoch)
        if code in SEQUENCE_UNKNOWN:
            raise SequenceLost(f"the log of shard {self.shard} lacks what was stored there: {_describe(appended)}")
        if code in UNSTORABLE:
            self.is_end_in_doubt = True
            raise BatchRefused(f"a batch of shard {self.shard} cannot be stored: {_describe(appended)}")
        return _describe(appended)

    def _trouble_is_over(self) -> None:
        self._pause_s = RETRY_PAUSE_S_MIN
        self._trouble_since_s = None

    async def _pause(self, what: str, problem: str) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._trouble_since_s is None:
            self._trouble_since_s = now_s
        lasted_s = now_s - self._trouble_since_s
        if lasted_s >= WARNING_PATIENCE_S and now_s >= self._warned_at_s + WARNING_INTERVAL_S:
            self._warned_at_s = now_s
            log.warning("trying again", shard=str(self.shard), what=what, problem=problem, for_s=round(lasted_s, 1))
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, RETRY_PAUSE_S_MAX)


def _describe(answer: pb.LogAppended | pb.LogRecords) -> str:
    try:
        name = ErrorCode(answer.error_code).name
    except ValueError:
        name = f"error {answer.error_code}"
    return f"{name}: {answer.error_message}" if answer.error_message else name
