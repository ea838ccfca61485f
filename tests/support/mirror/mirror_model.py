"""A source, a target, a store and workers in memory, for the rules of copying: no connections and no clock.

The target has Kafka's rules for idempotent producers (ProducerAppendInfo, ProducerStateEntry): five batches are known
again, the next has to follow, and of a producer that nobody knows any sequence is taken. Requests of a worker arrive
in order, late or never, and so do their answers.
"""

import random
from collections import deque
from dataclasses import dataclass, field, replace
from uuid import UUID, uuid4

from kio.schema.errors import ErrorCode

from ottla_core.wire.consumer_fetch import AbortedTransaction
from ottla_core.wire.record_batch import (
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    RecordBatchHeader,
    batch_prefix,
    crc_is_valid,
    increment_sequence,
    pack_header,
    parse_header,
)
from ottla_core.wire.records import Record, encode_batch, encode_record, iterate_records
from ottla_mirror.copy.needs import Need
from ottla_mirror.copy.partition_copy import PartitionCopy
from ottla_mirror.copy.partition_start import PartitionStart, cut_of, source_offset_of
from ottla_mirror.copy.takeover import Pairing, TargetScan
from ottla_mirror.offsets.stored_copy import Session, SessionName, StoredCopy, begun
from tests.support.mirror.memory_copy_store import as_loaded

TOPIC_ID = UUID(int=1)
CONTROL_ABORT, CONTROL_COMMIT = b"\0\0\0\0", b"\0\0\0\1"


class SourceModel:
    """A partition's log: real batches, some of transactions, compacted and cut at its start."""

    def __init__(self, chosen: random.Random):
        self.chosen = chosen
        self.batches: list[bytes] = []
        self.start = 0
        self.end = 0
        self.expected: dict[int, Record] = {}
        self.aborted: list[tuple[int, int, int]] = []
        self._open: dict[int, int] = {}

    def append(self) -> None:
        """Appends a batch of records: of no transaction, of an open one, or the marker that ends one."""
        kind = self.chosen.random()
        if kind < 0.15 and self._open:
            self._end_transaction(self.chosen.choice(list(self._open)))
            return
        records = [
            Record(self.end + n, 1000 + self.end + n, b"k%d" % self.chosen.randrange(6), b"v%d" % (self.end + n))
            for n in range(self.chosen.randrange(1, 6))
        ]
        producer = self.chosen.randrange(70, 73) if kind < 0.4 else -1
        transactional = producer >= 0
        sequence = 5 if transactional else -1
        epoch = 0 if transactional else -1
        self.batches.append(
            encode_batch(
                records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence,
                is_transactional=transactional, leader_epoch=3,
            )
        )  # fmt: skip
        if transactional:
            self._open.setdefault(producer, self.end)
        self.expected.update({each.offset: each for each in records})
        self.end += len(records)

    def _end_transaction(self, producer: int) -> None:
        first = self._open.pop(producer)
        aborts = self.chosen.random() < 0.5
        marker = Record(self.end, 1000 + self.end, CONTROL_ABORT if aborts else CONTROL_COMMIT, b"\0" * 6)
        self.batches.append(
            encode_batch([marker], producer_id=producer, producer_epoch=0, is_transactional=True, is_control=True)
        )
        if aborts:
            self.aborted.append((producer, first, self.end))
            for batch in self.batches:
                header = parse_header(batch)
                if header.producer_id == producer and header.base_offset >= first and not header.is_control:
                    for offset in range(header.base_offset, header.next_offset):
                        self.expected.pop(offset, None)
        self.end += 1

    def close_transactions(self) -> None:
        for producer in list(self._open):
            self._end_transaction(producer)

    @property
    def stable_end(self) -> int:
        return min(self._open.values(), default=self.end)

    def compact(self, up_to: int) -> None:
        """Keeps the last record of each key below an offset, as a cleaner does; batches keep their offset ranges."""
        up_to = min(up_to, self.stable_end)
        last = {each.key: offset for offset, each in self.expected.items() if offset < up_to}
        kept: list[bytes] = []
        for batch in self.batches:
            header = parse_header(batch)
            if header.is_control or header.next_offset > up_to or header.next_offset == self.end:
                kept.append(batch)
                continue
            wanted = [r for r in iterate_records(batch, header) if last.get(r.key) == r.offset]
            for record in iterate_records(batch, header):
                if last.get(record.key) != record.offset:
                    self.expected.pop(record.offset, None)
            if wanted:
                kept.append(_with_records(header, wanted))
        self.batches = kept

    def trim(self, start: int) -> None:
        """Removes whole batches before an offset."""
        self.batches = [each for each in self.batches if parse_header(each).next_offset > start]
        self.start = max(self.start, min(start, self.end))
        for offset in [each for each in self.expected if each < self.start]:
            del self.expected[offset]

    def fetch(self, offset: int, batches_max: int) -> tuple[memoryview, list[AbortedTransaction]]:
        """What a reader of committed records gets from an offset on."""
        found: list[bytes] = []
        end = self.stable_end
        for batch in self.batches:
            header = parse_header(batch)
            if header.next_offset > offset and header.base_offset < end and len(found) < batches_max:
                found.append(batch)
        aborted = [AbortedTransaction(p, first) for p, first, last in self.aborted if last >= offset]
        return memoryview(bytearray(b"".join(found))), aborted


def _with_records(header: RecordBatchHeader, wanted: list[Record]) -> bytes:
    """A compacted batch: the base and last offsets stay those of the original."""
    section = bytearray()
    for record in wanted:
        encode_record(section, record, header.base_offset, wanted[0].timestamp)
    changed = header._replace(
        batch_length=HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES + len(section),
        base_timestamp=wanted[0].timestamp,
        max_timestamp=max(each.timestamp for each in wanted),
        record_count=len(wanted),
    )
    return pack_header(changed, bytes(section)) + bytes(section)


@dataclass
class ProducerModel:
    epoch: int
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=5))


class TargetModel:
    """A partition's log with Kafka's idempotence; others write to it as well."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.start = 0
        self.end = 0
        self.producers: dict[int, ProducerModel] = {}

    def append(self, batch: bytes) -> tuple[ErrorCode, int]:
        header = parse_header(batch)
        assert crc_is_valid(batch, header), "a batch with a wrong CRC was sent"
        assert header.record_count == header.last_offset_delta + 1, "a sparse batch was sent"
        assert header.base_offset == 0, "brokers want producers to count from 0"
        assert not header.is_transactional
        assert not header.is_control
        state = self.producers.get(header.producer_id)
        first, last = header.base_sequence, header.last_sequence
        if state is not None:
            if header.producer_epoch < state.epoch:
                return ErrorCode.invalid_producer_epoch, -1
            if header.producer_epoch == state.epoch:
                for known in state.batches:
                    if known[:2] == (first, last):
                        return ErrorCode.none, known[2]
                expected = increment_sequence(state.batches[-1][1], 1)
                if first != expected:
                    return ErrorCode.out_of_order_sequence_number, -1
            elif first != 0:
                return ErrorCode.out_of_order_sequence_number, -1
        if state is None or state.epoch != header.producer_epoch:
            state = self.producers[header.producer_id] = ProducerModel(header.producer_epoch)
        state.batches.append((first, last, self.end))
        offset = self.end
        self._put(batch, header)
        return ErrorCode.none, offset

    def append_foreign(self) -> None:
        batch = encode_batch([Record(0, 1, b"foreign", b"foreign")])
        self._put(batch, parse_header(batch))

    def _put(self, batch: bytes, header: RecordBatchHeader) -> None:
        self.log.append(batch_prefix(self.end, header.batch_length, 9) + batch[16:])
        self.end += header.record_count

    def trim(self, start: int) -> None:
        self.log = [each for each in self.log if parse_header(each).next_offset > start]
        self.start = max(self.start, min(start, self.end))

    def lose(self, end: int) -> None:
        """Loses whole batches from an offset on, and knows the producers of those that are left."""
        kept = [each for each in self.log if parse_header(each).next_offset <= end]
        self.log, self.end, self.producers = [], 0, {}
        for batch in kept:
            header = parse_header(batch)
            state = self.producers.get(header.producer_id)
            if state is None or state.epoch != header.producer_epoch:
                state = self.producers[header.producer_id] = ProducerModel(header.producer_epoch)
            state.batches.append((header.base_sequence, header.last_sequence, header.base_offset))
            self.log.append(batch)
            self.end = header.next_offset

    def read(self, offset: int) -> memoryview:
        return memoryview(b"".join(each for each in self.log if parse_header(each).next_offset > offset))

    def records(self) -> list[Record]:
        found = [record for each in self.log for record in iterate_records(each, parse_header(each))]
        return [each for each in found if each.key != b"foreign"]


class StoreModel:
    """What `CopyStore` promises: the first of several sessions that replace the same holds; stale saves may win."""

    def __init__(self) -> None:
        self.stored: StoredCopy | None = None

    def load(self) -> StoredCopy:
        assert self.stored is not None
        return as_loaded(self.stored)

    def begin_session(self, session: Session) -> Session:
        if self.stored is None:
            assert session.replaces is None
            self.stored = begun(session, None)
        elif session.replaces == self.stored.session.name:
            self.stored = begun(session, as_loaded(self.stored))
        return self.stored.session

    def save(self, copied: StoredCopy) -> None:
        if self.stored is not None and copied.session.name == self.stored.session.name:
            self.stored = as_loaded(copied)


class WorkerModel:
    """A worker with its connection to the target: what is on the way there, and what comes back."""

    def __init__(self, source: SourceModel, target: TargetModel, store: StoreModel):
        self.source, self.target, self.store = source, target, store
        self.id = uuid4()
        self.copy: PartitionCopy | None = None
        self.under_way: deque[bytes] = deque()
        self.answers: deque[tuple[ErrorCode, int]] = deque()
        self.late: deque[bytes] = deque()
        self.looked_at: tuple[SessionName, int, int] | None = None

    def start(self, *, with_records: bool = False) -> None:
        """Takes the partition over, as the shell does: stored position, the target's log, both paired."""
        if self.store.stored is None:
            session = Session(
                producer_id=500, producer_epoch=0, source_topic_id=TOPIC_ID, source_start_offset=self.source.start,
                target_topic_id=TOPIC_ID, target_start_offset=self.target.end, replaces=None,
            )  # fmt: skip
            self.store.begin_session(session)
        stored = self.store.load()
        scan = TargetScan(stored.session.name, stored.next_sequence, stored.target_offset, with_records=with_records)
        scan.begin_at(self.target.start)
        scan.take(self.target.read(scan.next_offset))
        pairing = Pairing(scan.found, stored.next_sequence, stored.next_source_offset)
        self.copy = PartitionCopy(stored, pairing, self.id)

    def crash(self) -> None:
        """Ends without a word; what it has sent may arrive late."""
        self.lose_connection(arrives_late=True)
        self.copy = None
        self.id = uuid4()

    def fetch(self, batches_max: int) -> None:
        if self.copy is None or not self.copy.takes():
            return
        if self.copy.fetch_offset < self.source.start:
            self.copy.begin_at(self.source.start)
        records, aborted = self.source.fetch(self.copy.fetch_offset, batches_max)
        self.copy.take(records, aborted, high_watermark=self.source.end, last_stable_offset=self.source.stable_end)

    def send(self) -> None:
        if self.copy is not None:
            self.under_way += (bytes(batch.data) for batch in self.copy.next_to_send(1))

    def arrive(self) -> None:
        if self.late:
            self.target.append(self.late.popleft())
        elif self.under_way:
            self.answers.append(self.target.append(self.under_way.popleft()))

    def answer(self) -> None:
        if not self.answers or self.copy is None:
            return
        error, offset = self.answers.popleft()
        if error is ErrorCode.none:
            self.copy.on_acknowledged([offset])
        else:
            self.copy.on_failed(error, "")

    def refuse(self, error: ErrorCode) -> None:
        """The next batch under way is not taken, and so are those behind it."""
        if self.under_way:
            self.under_way.popleft()
            self.answers.append((error, -1))

    def lose_connection(self, *, arrives_late: bool) -> None:
        if self.copy is None:
            return
        while self.answers:
            self.answers.popleft()
            self.copy.on_failed(ErrorCode.none, "lost")
        while self.under_way:
            data = self.under_way.popleft()
            if arrives_late:
                self.late.append(data)
            self.copy.on_failed(ErrorCode.none, "lost")

    def save(self) -> None:
        if self.copy is not None:
            self.store.save(self.copy.copied)

    def go_on(self) -> None:
        """Does what is needed, as the shell does."""
        if self.copy is None or self.copy.in_flight:
            return
        if self.copy.may_repeat:
            self.copy.repeat()
            return
        if self.copy.needed is None:
            return
        need, source_offset, reason = self.copy.needed
        self.save()
        assert need not in (Need.REFUSED, Need.DAMAGED), reason
        session = self.copy.session
        position = (session.name, self.copy.next_sequence, self.copy.map.source_end)
        looked_in_vain = need is Need.LOOK and self.looked_at == position
        looked = PartitionStart(replaces=session.name, target_cut_at=self.copy.target_cut_at)
        cut_at = cut_of(self.store.load(), looked, self.target.end) if need is Need.LOOK else None
        if cut_at is not None:
            source_offset = source_offset_of(self.store.load().map, cut_at)
        if need in (Need.NEW_SESSION, Need.OWN_SESSION) or looked_in_vain or cut_at is not None:
            replacement = replace(
                session, producer_epoch=session.producer_epoch + 1, source_start_offset=source_offset,
                target_start_offset=self.target.end, replaces=session.name, owner=self.id,
            )  # fmt: skip
            self.store.begin_session(replacement)
        self.looked_at = position if need is Need.LOOK else None
        self.start(with_records=need is Need.LOOK_AT_RECORDS)

    @property
    def has_come_to_the_end(self) -> bool:
        """What was found at the target may remain unpaired, if the source has lost it and nothing has come since."""
        copy = self.copy
        return (
            copy is not None and copy.fetch_offset >= self.source.end and copy.first is None and copy.needed is None
        )

    def finish(self) -> None:
        """Copies to the end without further faults."""
        for _ in range(10_000):
            if self.copy is None:
                self.start()
            assert self.copy is not None
            self.fetch(3)
            self.send()
            self.arrive()
            self.answer()
            self.go_on()
            if self.has_come_to_the_end and not self.late:
                return
        raise AssertionError(f"it does not come to the end: {self.copy and self.copy.needed}")
