"""A target with transactions, in memory, and workers of which some live on after others have taken over.

The target has Kafka's rules: a coordinator that fences by epochs, markers, sequences by epoch, both versions of
transactions. The workers are the real ones from the state machine of a copy up, with the real topic of the maps. What
they ask takes a while that differs from request to request, and gets lost on the way or back.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID, uuid4

from kio.schema.errors import ErrorCode

from ottla_core.client.errors import Unreachable
from ottla_core.wire.raw_produce import ProduceOutcome
from ottla_core.wire.record_batch import (
    Buffer,
    RecordBatchHeader,
    batch_prefix,
    crc_is_valid,
    parse_header,
)
from ottla_core.wire.records import Record, encode_batch
from ottla_mirror.copy.copy_settings import CopySettings, TransactionSettings
from ottla_mirror.copy.needs import Need
from ottla_mirror.copy.partition_copy import PartitionCopy
from ottla_mirror.copy.partition_start import PartitionStart, session_start
from ottla_mirror.copy.partition_work import PartitionWork
from ottla_mirror.copy.takeover import Pairing
from ottla_mirror.copy.transactions.partition_transactions import PartitionTransactions
from ottla_mirror.copy.transactions.transaction_requests import OnOutcome, TopicPartition
from ottla_mirror.copy.transactions.transaction_rules import Producer, transactional_id
from ottla_mirror.copy.transactions.transactional_start import as_of_stored, begun_by
from ottla_mirror.internal_topics.decided_records import ReadBatch, read_batch
from ottla_mirror.internal_topics.internal_topic import InternalTopic
from ottla_mirror.internal_topics.topic_requests import Fetched
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.map_topic import MapTopic
from ottla_mirror.offsets.stored_copy import StoredCopy
from tests.support.mirror.mirror_model import CONTROL_ABORT, CONTROL_COMMIT, TOPIC_ID, SourceModel

PARTITION = SourcePartition(topic="t", topic_id=TOPIC_ID, partition=0)
DATA: TopicPartition = ("A.t", 0)
MAPS: TopicPartition = ("A.offset-map.internal", 0)
TRANSACTIONAL_ID = transactional_id("A", PARTITION)
TARGET_LEADER = 1
SETTINGS = CopySettings(
    source_alias="A", transactions=TransactionSettings(interval_s=0.5, bytes_max=2000, timeout_ms=20_000)
)
BATCHES_KNOWN = 5
PARTS = 0.03
"""How often a worker finds that the source has another history, of the times that it is fed."""
Answer = TypeVar("Answer")


@dataclass(slots=True)
class _LogProducer:
    """What a log knows of a producer."""

    epoch: int
    next_sequence: int = 0
    recent: list[tuple[int, int, int]] = field(default_factory=list)


@dataclass(slots=True)
class LogModel:
    """A partition of the target."""

    batches: list[bytes] = field(default_factory=list)
    end: int = 0
    producers: dict[int, _LogProducer] = field(default_factory=dict)

    def append(self, batch: bytes) -> tuple[ErrorCode, int]:
        """The error, and where the batch is."""
        header = parse_header(batch)
        assert crc_is_valid(batch, header)
        known = self.producers.get(header.producer_id)
        if known is not None and header.producer_epoch < known.epoch:
            return ErrorCode.invalid_producer_epoch, -1
        if known is None or header.producer_epoch > known.epoch:
            if known is not None and header.base_sequence:
                return ErrorCode.out_of_order_sequence_number, -1
            known = self.producers[header.producer_id] = _LogProducer(header.producer_epoch, header.base_sequence)
        for sequence, count, offset in known.recent:
            if (sequence, count) == (header.base_sequence, header.record_count):
                return ErrorCode.none, offset
        if header.base_sequence != known.next_sequence:
            return ErrorCode.out_of_order_sequence_number, -1
        known.next_sequence += header.record_count
        known.recent = [*known.recent, (header.base_sequence, header.record_count, self.end)][-BATCHES_KNOWN:]
        return ErrorCode.none, self._place(batch, header)

    def mark(self, producer: Producer, *, commits: bool) -> None:
        """Appends a marker."""
        record = Record(self.end, 0, CONTROL_COMMIT if commits else CONTROL_ABORT, b"\0" * 6)
        marker = encode_batch(
            [record], producer_id=producer.id, producer_epoch=producer.epoch, is_transactional=True, is_control=True
        )
        self._place(marker, parse_header(marker))
        known = self.producers.setdefault(producer.id, _LogProducer(producer.epoch))
        if producer.epoch > known.epoch:
            self.producers[producer.id] = _LogProducer(producer.epoch)

    def _place(self, batch: bytes, header: RecordBatchHeader) -> int:
        offset = self.end
        placed = bytearray(batch)
        prefix = batch_prefix(offset, header.batch_length, 0)
        placed[: len(prefix)] = prefix
        self.batches.append(bytes(placed))
        self.end += header.last_offset_delta + 1
        return offset

    def read(self, offset: int) -> list[ReadBatch]:
        """The batches from an offset on."""
        read = (read_batch(parse_header(each), memoryview(each), offset) for each in self.batches)
        return [each for each in read if each.header.next_offset > offset]

    def committed(self) -> list[Record]:
        """What readers of committed records see."""
        open_records: dict[int, list[Record]] = {}
        seen: list[Record] = []
        for header, records in self.read(0):
            if header.is_control:
                ended = open_records.pop(header.producer_id, [])
                seen += ended if records[0].key == CONTROL_COMMIT else []
            elif header.is_transactional:
                open_records.setdefault(header.producer_id, []).extend(records)
            else:
                seen += records
        return sorted(seen, key=lambda each: each.offset)


class TargetModel:
    """The target: two logs, and the coordinator of one transactional id.

    Attributes:
        fences: whether the coordinator does its duty; a test sees what happens else.
    """

    def __init__(self, *, is_version_2: bool) -> None:
        self.is_version_2 = is_version_2
        self.fences = True
        self.logs: dict[TopicPartition, LogModel] = {DATA: LogModel(), MAPS: LogModel()}
        self._producer = Producer(7, -1)
        self._former: tuple[Producer, bool] | None = None
        self._open: set[TopicPartition] = set()
        self._has_begun = False

    def init(self) -> Producer:
        """Gives a producer out, and has what is open aborted."""
        if not self.fences and self._producer.epoch >= 0:
            return self._producer
        self._producer = self._producer._replace(epoch=self._producer.epoch + 1)
        self._mark(commits=False)
        self._former = None
        if self.is_version_2:
            self._producer = self._producer._replace(epoch=self._producer.epoch + 1)
        return self._producer

    def add(self, producer: Producer, partitions: list[TopicPartition]) -> ErrorCode:
        """Adds partitions."""
        if producer != self._producer:
            return ErrorCode.producer_fenced
        self._open |= set(partitions)
        return ErrorCode.none

    def end(self, producer: Producer, *, commits: bool) -> tuple[ErrorCode, Producer | None]:
        """Ends a transaction, or says again what it said before."""
        following = self._producer if self.is_version_2 else None
        if self.is_version_2 and self._former == (producer, commits):
            return ErrorCode.none, following
        if producer != self._producer:
            return ErrorCode.producer_fenced, None
        if not self._open:
            is_again = not self.is_version_2 and self._former == (producer, commits)
            return (ErrorCode.none if is_again else ErrorCode.invalid_txn_state), following if not commits else None
        self._former = producer, commits
        if self.is_version_2:
            following = self._producer = producer._replace(epoch=producer.epoch + 1)
        self._mark(commits=commits)
        return ErrorCode.none, following

    def produce(self, to: TopicPartition, batch: bytes) -> tuple[ErrorCode, int]:
        """Appends a batch of a transaction."""
        header = parse_header(batch)
        assert header.is_transactional
        producer = Producer(header.producer_id, header.producer_epoch)
        if producer != self._producer:
            return ErrorCode.invalid_producer_epoch, -1
        if to not in self._open:
            if not self.is_version_2:
                return ErrorCode.invalid_txn_state, -1
            self._open.add(to)
        return self.logs[to].append(batch)

    def _mark(self, *, commits: bool) -> None:
        for each in sorted(self._open):
            self.logs[each].mark(self._producer, commits=commits)
        self._open.clear()


class FailingRequests:
    """The requests of one worker, which take a while and get lost.

    Attributes:
        loses: the share of requests, and that of answers, that get lost.
        slow_s: the longest that something takes; a worker that is slow lives on after others have taken over.
    """

    def __init__(self, target: TargetModel, chosen: random.Random) -> None:
        self._target = target
        self._chosen = chosen
        self._last_s = 0.0
        self.loses = 0.05
        self.slow_s = 0.2

    @property
    def is_version_2(self) -> bool:
        return self._target.is_version_2

    async def init(self, transactional_id: str) -> Producer:
        assert transactional_id == TRANSACTIONAL_ID
        return await self._asked(self._target.init)

    async def add(self, transactional_id: str, producer: Producer, partitions: list[TopicPartition]) -> ErrorCode:
        assert transactional_id == TRANSACTIONAL_ID
        return await self._asked(lambda: self._target.add(producer, partitions))

    async def end(
        self, transactional_id: str, producer: Producer, *, commits: bool
    ) -> tuple[ErrorCode, Producer | None]:
        assert transactional_id == TRANSACTIONAL_ID
        return await self._asked(lambda: self._target.end(producer, commits=commits))

    def produce(
        self, leader: int, transactional_id: str, to: TopicPartition, batch: Buffer, on_outcome: OnOutcome
    ) -> None:
        assert (leader, transactional_id) == (TARGET_LEADER, TRANSACTIONAL_ID)
        loop, sent = asyncio.get_running_loop(), bytes(batch)
        # Requests of a connection arrive in order, and so do their answers.
        arrives_s = self._last_s = max(self._last_s, loop.time() + self._chosen.uniform(0, self.slow_s))
        answered_s = self._last_s = arrives_s + self._chosen.uniform(0, self.slow_s)

        def arrive() -> None:
            if self._fails():
                loop.call_at(answered_s, on_outcome, "the request was lost")
                return
            passing = self._chosen.random()
            if passing < self.loses:
                error, offset = ErrorCode.concurrent_transactions, -1
            elif passing < 2 * self.loses:
                error, offset = ErrorCode.not_leader_or_follower, -1
            else:
                error, offset = self._target.produce(to, sent)
            is_lost = self._fails()
            outcome = ProduceOutcome(to[0], to[1], error, offset, -1, None)
            loop.call_at(answered_s, on_outcome, "the answer was lost" if is_lost else outcome)

        loop.call_at(arrives_s, arrive)

    async def _asked(self, ask: Callable[[], Answer]) -> Answer:
        await asyncio.sleep(self._chosen.uniform(0, self.slow_s))  # the clock jumps
        if self._fails():
            raise Unreachable("the request was lost")
        # It is carried out whether or not whoever has asked still lives.
        answer = ask()
        await asyncio.sleep(self._chosen.uniform(0, self.slow_s))  # the clock jumps
        if self._fails():
            raise Unreachable("the answer was lost")
        return answer

    def _fails(self) -> bool:
        return self._chosen.random() < self.loses


class MapTopicModel(InternalTopic):
    """The topic of the maps, in the target's log."""

    def __init__(self, log: LogModel) -> None:
        self.name = MAPS[0]
        self.log = log

    def __str__(self) -> str:
        return self.name

    async def topic_id(self, timeout_s: float = 0) -> UUID | None:
        return UUID(int=3)

    async def end_offset(self, timeout_s: float = 0) -> int:
        return self.log.end

    async def start_offset(self, timeout_s: float = 0) -> int:
        return 0

    async def find_leader(self, timeout_s: float = 0) -> int:
        return TARGET_LEADER

    async def fetch(self, offset: int, timeout_s: float = 0) -> Fetched:
        batches = self.log.read(offset)
        return Fetched(batches, batches[-1].header.next_offset if batches else offset)


class WorkerModel:
    """A worker that copies the partition: it takes over, is fed from the source, and writes.

    Attributes:
        work: the partition, as this worker has it.
        target: to which it is copied.
        is_gone: whether it does nothing any more.
        is_replaced: whether another worker has the partition by now, of which this one hears by being fenced.
        failures: transactions that could not be committed.
        problem: why it has halted.
        lacks_memory: whether its other partitions need the memory of this one.
    """

    def __init__(
        self, source: SourceModel, target: TargetModel, chosen: random.Random, settings: CopySettings = SETTINGS
    ) -> None:
        self.work = self.made_work()
        self.target = target
        self.is_gone = self.is_replaced = self.lacks_memory = False
        self.failures = 0
        self.problem = ""
        self.requests = FailingRequests(target, chosen)
        self.store = MapTopic(MapTopicModel(target.logs[MAPS]))
        self.writing = PartitionTransactions(
            self.work,
            TRANSACTIONAL_ID,
            owner=self,
            requests=self.requests,
            store=self.store,
            settings=settings,
            now_ms=lambda: 0,
        )
        self._id = uuid4()
        self._source = source
        self._chosen = chosen
        self._is_to_begin = True

    @staticmethod
    def made_work() -> PartitionWork:
        """The partition, before anybody has taken it over."""
        work = PartitionWork(PARTITION, DATA[0], 0.0)
        work.target_leader = TARGET_LEADER
        work.target_topic_id = UUID(int=2)
        return work

    async def run(self) -> None:
        """Copies until it is gone."""
        while not self.is_gone:
            if self._is_to_begin:
                self._is_to_begin = False
                await self._take_over()
            self._feed()
            self._part()
            self.writing.wake()
            copy = self.work.copy
            if copy is not None and copy.needed is not None and not self.writing.is_busy:
                self._is_to_begin = True
            await asyncio.sleep(self._chosen.uniform(0.01, 0.2))  # the clock jumps

    async def _take_over(self) -> None:
        try:
            producer = await self.requests.init(TRANSACTIONAL_ID)
        except Unreachable:
            self._is_to_begin = True
            return
        before = (await self.store.load([PARTITION])).get(PARTITION)
        start = 0 if before is None else session_start(before, self._beginning(before), None)
        end = self.target.logs[DATA].end
        copied = begun_by(self.work, producer, start, before, target_end=end, worker=self._id)
        self.work.replace_copy(PartitionCopy(copied, Pairing([], 0, copied.next_source_offset), self._id))

    def _beginning(self, before: StoredCopy) -> PartitionStart:
        copy = self.work.copy
        if copy is None or copy.needed is None or copy.needed.need is not Need.NEW_SESSION:
            return PartitionStart()
        place = min(copy.needed.source_offset, copy.map.source_end)
        found = PartitionStart(new_session_at=place, replaces=copy.session.name)
        return as_of_stored(found, copy, before)

    def _part(self) -> None:
        """Now and then the source has another history from where it was fetched last, which is that of the others."""
        copy = self.work.copy
        if copy is not None and copy.takes() and self._chosen.random() < PARTS:
            copy.part_at(copy.fetch_offset, "the source has another history")

    def _feed(self) -> None:
        copy = self.work.copy
        if copy is None or not copy.takes() or copy.unsent_bytes > 4000:
            return
        records, aborted = self._source.fetch(copy.fetch_offset, self._chosen.randrange(1, 5))
        copy.take(records, aborted, high_watermark=self._source.end, last_stable_offset=self._source.stable_end)

    def is_through(self) -> bool:
        """Whether everything of the source is committed."""
        copy = self.work.copy
        if copy is None or copy.fetch_offset < self._source.end or self.writing.is_busy:
            return False
        if self.writing.has_uncommitted:
            self.writing.commit()
            return False
        return copy.map.source_end >= self._source.end

    # What its transactions tell

    def locate(self, work: PartitionWork) -> str:
        return ""

    def refresh_target(self) -> None:
        pass

    def on_room(self, work: PartitionWork) -> None:
        pass

    def on_answered(self, work: PartitionWork) -> None:
        pass

    def holds_up_others(self, work: PartitionWork) -> bool:
        return self.lacks_memory

    def on_produced(self, work: PartitionWork) -> None:
        pass

    def begin_anew(self, work: PartitionWork, reason: str, *, is_taken: bool) -> None:
        self.failures += 1
        self.is_gone = self.is_replaced
        self._is_to_begin = True

    def halt(self, work: PartitionWork, reason: str) -> None:
        self.problem = reason


def values(records: list[Record]) -> list[bytes | None]:
    """What is compared: the values, which no two records of the source share."""
    return [each.value for each in records]


def source_values(source: SourceModel) -> list[bytes | None]:
    """The values of the committed records, in order."""
    return [source.expected[offset].value for offset in sorted(source.expected)]
