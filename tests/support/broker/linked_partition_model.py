"""A linked partition with two real replicas, and a source that may lose what it said: the check of histories.

The source is a list of batches that it cuts in unclean elections, deletes from the front, and shows below its high
watermark, with the real rule by which logs are compared (`LeaderEpochs`). Every list that it ever had is kept. After
each step each replica's log must be a beginning of one of these, in bytes, but for batches that the source deleted
by then, and followed after a promotion by batches of the target's own.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_broker.fetch_reading import diverging_epoch
from ottla_broker.links.linked_leading import begin_log_at, cut_to_source
from ottla_broker.links.linked_partition import LinkedPartition, Next, SourceRange
from ottla_broker.log.files.leader_epoch_checkpoint import EpochEntry, LeaderEpochs
from ottla_broker.log.partition.read_isolation import ReadIsolation
from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.replica.follower_replica import FetchPosition, truncation_offset
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_broker.replication.following import append_from_leader, diverging_offset, restart_at, truncate_to
from ottla_core.cluster.state.model import PartitionState
from ottla_core.errors import KafkaError, OffsetOutOfRange
from ottla_core.promotion import PROMOTION_LEAP
from ottla_core.wire.replica_fetch_response import PartitionFetched
from tests.support.broker.partition_logs import NOW_MS, PARTITION, open_log, read_batches
from tests.support.messages.record_batches import batch_of

LINK = UUID(int=70)
SOURCE_TOPIC = UUID(int=71)
REPLICAS = (1, 2)
BATCHES_SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """A batch of the source; `end` is the offset behind it."""

    base: int
    end: int
    epoch: int
    data: bytes


@dataclass(slots=True)
class Source:
    """The log of the source's leader.

    Attributes:
        lineages: every history that it had, the present one last; batches that are deleted stay in it.
        start: where its log begins.
        high_watermark: below it consumers see it.
        epoch: of its leader.
    """

    lineages: list[list[SourceBatch]] = field(default_factory=lambda: [[]])
    start: int = 0
    high_watermark: int = 0
    epoch: int = 0
    written: int = 0

    @property
    def batches(self) -> list[SourceBatch]:
        return self.lineages[-1]

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else 0

    def write(self, count: int) -> None:
        base, self.written = self.end, self.written + 1
        values = [f"{self.epoch}/{self.written}/{number}".encode() for number in range(count)]
        batch = replace(batch_of(values), base_offset=base, partition_leader_epoch=self.epoch)
        self.batches.append(SourceBatch(base, base + count, self.epoch, batch.encode()))

    def replicate(self, source: random.Random) -> None:
        self.high_watermark = source.randint(self.high_watermark, self.end)

    def elect(self) -> None:
        """A clean election: all that is replicated stays."""
        self._cut(self.high_watermark)
        self.epoch += 1

    def elect_uncleanly(self, source: random.Random) -> None:
        """Whoever leads now has lost records that consumers have seen."""
        self._cut(source.randint(self.start, self.end))
        self.epoch += source.randint(1, 3)

    def _cut(self, offset: int) -> None:
        kept = [batch for batch in self.batches if batch.end <= offset]
        if len(kept) < len(self.batches):
            self.lineages.append(kept)
        self.high_watermark = min(self.high_watermark, self.end)
        self.start = min(self.start, self.end)

    def delete(self, source: random.Random) -> None:
        """Retention, or DeleteRecords, which may begin a log within a batch."""
        self.start = source.randint(self.start, self.high_watermark)

    def epochs(self) -> LeaderEpochs:
        epochs = LeaderEpochs([EpochEntry(batch.epoch, batch.base) for batch in self.batches])
        if self.epoch > epochs.latest:
            epochs.assign(self.epoch, self.end)
        epochs.truncate_from_start(self.start, self.end + 1)  # in Kafka, an emptied log's epoch lies at its end
        return epochs

    def answer(self, asked: FetchPosition) -> PartitionFetched:
        """What it answers to a fetch. Source: Kafka's Partition.readRecords."""
        error, records, diverging = ErrorCode.none, b"", None
        if asked.last_fetched_epoch >= 0:
            epoch, end = self.epochs().end_offset_for(asked.last_fetched_epoch, self.end)
            if epoch < 0 or asked.offset < self.start:
                error = ErrorCode.offset_out_of_range
            elif epoch < asked.last_fetched_epoch or end < asked.offset:
                diverging = epoch, end
        if not self.start <= asked.offset <= self.end and diverging is None:
            error = ErrorCode.offset_out_of_range
        if error is ErrorCode.none and diverging is None:
            shown = [b for b in self.batches if b.end > asked.offset and b.end <= self.high_watermark]
            records = b"".join(batch.data for batch in shown[:BATCHES_SHOWN_MAX])
        return PartitionFetched(
            SOURCE_TOPIC, 0, error, self.high_watermark, self.start, memoryview(records), diverging
        )

    def range_for(self, last_epoch: int) -> SourceRange:
        epoch, end = self.epochs().end_offset_for(last_epoch, self.end)
        return SourceRange(self.start, self.high_watermark, epoch, end)


class LinkedModel:
    """The target's two replicas and the source; public methods are events."""

    def __init__(self, directory: Path, chance: random.Random) -> None:
        self.chance = chance
        self.source = Source()
        self.deleted_up_to = 0
        self.is_promoted = False
        self.own = 0
        self.own_history: list[bytes] = []
        self.state = PartitionState(
            topic_id=UUID(int=1), index=0, replicas=REPLICAS, isr=REPLICAS, leader=1, leader_epoch=0,
            leader_broker_epoch=71, partition_epoch=1, link=LINK,
        )  # fmt: skip
        self.replicas: dict[int, Partition] = {}
        for broker_id in REPLICAS:
            path = directory / str(broker_id)
            path.mkdir()
            context = ReplicationContext(broker_id, 30_000, lambda: 0, frozenset(REPLICAS))
            self.replicas[broker_id] = Partition(PARTITION, open_log(path), context, self.state)
        self.pending: list[tuple[LinkedPartition, int, PartitionFetched]] = []
        self._take_over(self.state)

    @property
    def leader(self) -> Partition:
        return self.replicas[self.state.leader]

    def _take_over(self, state: PartitionState) -> None:
        self.state = replace(state, partition_epoch=state.partition_epoch + 1)
        for broker_id, partition in self.replicas.items():
            partition.apply(self.state, leads=broker_id == self.state.leader)
        if not self.is_promoted:
            self.linked = LinkedPartition(
                self.leader, link=LINK, source_topic="t", source_topic_id=SOURCE_TOPIC, now_ms=0
            )

    # The link

    def ask(self) -> None:
        """The leader fetches; the answer may come late, when it is no leader any more or leads anew."""
        if self.is_promoted:
            return
        answer = self.source.answer(self.linked.fetch_position())
        self.pending.append((self.linked, self.linked.partition.log.log_end_offset, answer))

    def deliver(self) -> None:
        """An answer arrives."""
        if not self.pending:
            return
        linked, end_offset, answer = self.pending.pop(self.chance.randrange(len(self.pending)))
        what = linked.take(answer, log_end_offset=end_offset, now_ms=0)
        if linked is not self.linked or self.is_promoted:
            return
        if what is Next.RAISE_EPOCH:
            assert linked.wanted_epoch > self.state.leader_epoch
            self._take_over(replace(self.state, leader_epoch=linked.wanted_epoch))
        elif what is Next.FIND_START:
            found = self.source.range_for(linked.partition.log.leader_epochs.latest)
            begin_at = linked.resume_within(found, 0)
            if begin_at is not None:
                begin_log_at(linked.partition, begin_at, leader_epoch=linked.leader_epoch, link=LINK, now_ms=NOW_MS)
        elif what is Next.SET_ASIDE:
            offset = truncation_offset(linked.partition.log, *linked.parted_at)
            lost = [head.leader_epoch for head, _ in read_batches(linked.partition.log) if head.last_offset >= offset]
            assert all(epoch <= self.state.set_aside_up_to for epoch in lost), "copied batches are cut"
            linked.partition.hold_readers()
            cut_to_source(
                linked.partition,
                offset,
                leader_epoch=linked.leader_epoch,
                link=LINK,
                end_offset=linked.partition.log.log_end_offset,
                now_ms=NOW_MS,
            )
            linked.partition.release_readers()

    # The target's own replication

    def replicate(self) -> None:
        """The follower fetches from the leader and takes over what it is answered."""
        leader = self.leader
        (follower_id,) = set(REPLICAS) - {self.state.leader}
        follower, epoch = self.replicas[follower_id], self.state.leader_epoch
        position = follower.fetch_position()
        try:
            if position.last_fetched_epoch >= 0:
                parted = diverging_epoch(leader, position.last_fetched_epoch, position.offset)
                if parted is not None:
                    offset = diverging_offset(follower, *parted, leader_epoch=epoch)
                    truncate_to(follower, offset, leader_epoch=epoch, now_ms=NOW_MS)
                    return
            found = leader.read(position.offset, 300, at_least_one_batch=True, isolation=ReadIsolation.LOG_END)
            contact = FollowerContact(follower_id, 70 + follower_id, 0)
            leader.record_follower_fetch(contact, offset=position.offset, log_start_offset=0)
        except OffsetOutOfRange:
            self._restart(follower, leader)
            return
        records = b""
        if found is not None:
            records = found.read()
        append_from_leader(
            follower,
            records,
            leader_epoch=epoch,
            high_watermark=leader.log.high_watermark,
            log_start_offset=leader.log.log_start_offset,
            now_ms=NOW_MS,
        )

    def _restart(self, follower: Partition, leader: Partition) -> None:
        epoch = self.state.leader_epoch
        if leader.log.log_end_offset < follower.log.log_end_offset:
            truncate_to(follower, leader.log.log_end_offset, leader_epoch=epoch, now_ms=NOW_MS)
        elif leader.log.log_start_offset > follower.log.log_end_offset:
            restart_at(follower, leader.log.log_start_offset, leader_epoch=epoch, now_ms=NOW_MS)

    def fail_over(self) -> None:
        """The other replica leads, whatever it has: the rules may not depend on a clean election."""
        (other,) = set(REPLICAS) - {self.state.leader}
        self._take_over(replace(self.state, leader=other, leader_epoch=self.state.leader_epoch + 1))

    def promote(self) -> None:
        if not self.is_promoted:
            self.is_promoted = True
            self._take_over(replace(self.state, link=None, leader_epoch=self.state.leader_epoch + PROMOTION_LEAP))

    def turn(self) -> None:
        """What was written here follows a source that has a beginning of it, and has gone on in epochs far above."""
        history = read_batches(self.leader.log)
        shared = history[: self.chance.randint(0, len(history))]
        self.own_history = [batch for _, batch in history]
        self.source.lineages = [
            [SourceBatch(head.base_offset, head.next_offset, head.leader_epoch, batch) for head, batch in shared]
        ]
        self.source.epoch = PROMOTION_LEAP
        self.source.high_watermark = self.source.end
        self.is_promoted = False
        own_epoch = self.state.leader_epoch
        self._take_over(replace(self.state, link=LINK, leader_epoch=PROMOTION_LEAP, set_aside_up_to=own_epoch))

    def write_here(self) -> None:
        """A client writes, which only a promoted partition takes."""
        self.own += 1
        try:
            self.leader.append(batch_of([f"own {self.own}".encode()]).encode(), now_ms=NOW_MS, all_in_sync=False)
            assert self.is_promoted, "a linked partition took a client's batch"
        except KafkaError:
            assert not self.is_promoted

    # The check

    def check(self) -> None:
        self.deleted_up_to = max(self.deleted_up_to, self.source.start)
        assert all(partition.state.leader_epoch >= 0 for partition in self.replicas.values())
        for broker_id, partition in self.replicas.items():
            self._check_log(broker_id, [batch for _, batch in read_batches(partition.log)], partition)

    def _check_log(self, broker_id: int, log: list[bytes], partition: Partition) -> None:
        epochs = [int.from_bytes(batch[12:16]) for batch in log]
        assert epochs == sorted(epochs), f"replica {broker_id}: leader epochs go back"
        assert max(epochs, default=0) <= partition.state.leader_epoch, "a batch is of a later epoch than its leader's"
        own_epoch = PROMOTION_LEAP if not self.own_history else 2 * PROMOTION_LEAP
        copied = [batch for batch, epoch in zip(log, epochs, strict=True) if epoch < own_epoch]
        last_copied = max((epoch for epoch in epochs if epoch < own_epoch), default=-1)
        if 0 <= last_copied <= self.state.set_aside_up_to and copied == self.own_history[: len(copied)]:
            return  # not compared with the source, perhaps because it was promoted before
        problems = [self._difference(copied, lineage) for lineage in self.source.lineages]
        assert None in problems, f"replica {broker_id} is no beginning of a history of the source: {problems}"

    def _difference(self, copied: list[bytes], lineage: list[SourceBatch]) -> str | None:
        """Why a log is no beginning of a history; None if it is."""
        last = copied[-1] if copied else None
        expected = [batch.data for batch in lineage]
        if last is not None and last not in expected:
            return "its last batch is of another history"
        ends = expected.index(last) + 1 if last is not None else 0
        beginning = lineage[:ends]
        missing = [batch for batch in beginning if batch.data not in copied]
        if [batch.data for batch in beginning if batch.data in copied] != copied:
            return "it has a batch of another history"
        undeleted = [batch.base for batch in missing if batch.end > self.deleted_up_to]
        return f"batches at {undeleted} are missing" if undeleted else None


EVENTS: tuple[tuple[int, Callable[[LinkedModel], None]], ...] = (
    (8, lambda model: model.source.write(model.chance.randint(1, 4))),
    (8, lambda model: model.source.replicate(model.chance)),
    (1, lambda model: model.source.elect()),
    (1, lambda model: model.source.elect_uncleanly(model.chance)),
    (1, lambda model: model.source.delete(model.chance)),
    (12, LinkedModel.ask),
    (12, LinkedModel.deliver),
    (14, LinkedModel.replicate),
    (2, LinkedModel.fail_over),
    (1, LinkedModel.write_here),
)


def walk(directory: Path, seed: int, *, steps: int = 150, own_first: bool = False) -> LinkedModel:
    """Draws events by a seed, and checks after each; promotes at the end and has the replicas become equal.

    With `own_first` the partition has records of its own before it follows.
    """
    chance = random.Random(seed)
    model = LinkedModel(directory, chance)
    if own_first:
        model.is_promoted = True
        model._take_over(replace(model.state, link=None))
        for _ in range(chance.randint(1, 15)):
            model.write_here()
            if chance.random() < 0.2:
                for _ in range(20):
                    model.replicate()
                model.fail_over()
        for _ in range(20):
            model.replicate()
        model.turn()
    weights, events = [weight for weight, _ in EVENTS], [event for _, event in EVENTS]
    for event in chance.choices(events, weights, k=steps):
        event(model)
        model.check()
    model.promote()
    for _ in range(3):
        model.write_here()
        model.fail_over()
    for _ in range(300):
        model.replicate()
    model.check()
    logs = [read_batches(partition.log) for partition in model.replicas.values()]
    assert logs[0] == logs[1], "the replicas are not equal in the end"
    return model
