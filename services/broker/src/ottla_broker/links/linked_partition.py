"""One partition that this broker leads and that follows one of another cluster. Pure but for the log.

It is fetched as a consumer would, below the source's high watermark, with the rule by which followers find out that
logs have parted: every fetch says of which leader epoch the log's last record is, and the source compares. So two
histories are never mixed. Where the source has another one, the partition stops; it is looked at again now and then,
and goes on by itself if the source is what it was.
"""

from dataclasses import dataclass
from enum import Enum, auto
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_broker.links.linked_leading import append_from_source
from ottla_broker.links.source_batches import Obstacle, usable_batches
from ottla_broker.partition import Partition
from ottla_broker.replica.follower_replica import UNDEFINED_EPOCH, FetchPosition
from ottla_core.cluster.controller_rpc.link_api import UNKNOWN, LinkedPartitionState, PartitionStatus
from ottla_core.errors import FencedLeaderEpoch, KafkaError, NotLeaderOrFollower
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.replica_fetch_response import PartitionFetched

NOT_TOLD = -1
"""As log start offset: a consumer has none."""


class Next(Enum):
    """What to do after an answer about a partition.

    GO_ON: fetch on. LATER: fetch again after a pause that grows. STOPPED: the same, with a long pause. FIND_START:
    ask where the source's log begins and ends. RAISE_EPOCH: have this leader's epoch raised. LOOK: somebody else may
    lead it in the source. SET_ASIDE: keep elsewhere what was written here and the source does not have.
    """

    GO_ON = auto()
    LATER = auto()
    STOPPED = auto()
    FIND_START = auto()
    RAISE_EPOCH = auto()
    LOOK = auto()
    SET_ASIDE = auto()


_LED_BY_OTHERS = (
    ErrorCode.not_leader_or_follower,
    ErrorCode.fenced_leader_epoch,
    ErrorCode.unknown_leader_epoch,
    ErrorCode.unknown_topic_id,
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.inconsistent_topic_id,
    ErrorCode.leader_not_available,
    ErrorCode.replica_not_available,
    ErrorCode.offset_not_available,
    ErrorCode.kafka_storage_error,
)


@dataclass(frozen=True, slots=True)
class SourceRange:
    """What the leader in the source says of its log.

    Attributes:
        start_offset: where it begins.
        end_offset: its high watermark.
        epoch: the largest leader epoch that it knows up to that of our last record, -1 if it knows none.
        epoch_end_offset: where that epoch ends.
    """

    start_offset: int
    end_offset: int
    epoch: int = UNDEFINED_EPOCH
    epoch_end_offset: int = -1


class LinkedPartition:
    """A partition, what it follows, and how far it has come.

    Attributes:
        partition: this broker's replica, which leads.
        topic_id: the topic's id in the source, by which it is fetched.
        source_topic: its name there.
        source_leader_epoch: the partition's leader epoch there, or -1.
        leader_epoch: this leader's, in which it is asked for; answers to another one's questions are dropped.
        parted_at: after `Next.SET_ASIDE`, the largest epoch of the source up to ours, and where it ends there.
        wanted_epoch: what this leader's epoch has to be raised to, after `Next.RAISE_EPOCH`.
        state: what it is doing.
    """

    __slots__ = (
        "_link",
        "_resume_at",
        "_since_ms",
        "_source_end_offset",
        "answered_ms",
        "leader_epoch",
        "parted_at",
        "partition",
        "reason",
        "records_missed",
        "source_leader_epoch",
        "source_topic",
        "state",
        "topic_id",
        "wanted_epoch",
    )

    def __init__(
        self, partition: Partition, *, link: UUID, source_topic: str, source_topic_id: UUID, now_ms: int
    ) -> None:
        self.partition = partition
        self.topic_id = source_topic_id
        self.source_topic = source_topic
        self.source_leader_epoch = UNDEFINED_EPOCH
        self.leader_epoch = partition.state.leader_epoch
        self.wanted_epoch = UNDEFINED_EPOCH
        self.state = LinkedPartitionState.WAITING
        self.reason = "its source has not been asked yet"
        self.parted_at = (UNDEFINED_EPOCH, -1)
        self.records_missed = 0
        self.answered_ms = UNKNOWN
        self._since_ms = now_ms
        self._source_end_offset = UNKNOWN
        self._link = link
        self._resume_at: int | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition's name here."""
        return self.partition.topic_partition

    def enter(self, state: LinkedPartitionState, reason: str, now_ms: int) -> None:
        """Note what the partition is doing from now on."""
        if state is not self.state:
            self.state, self._since_ms = state, now_ms
        self.reason = reason

    def fetch_position(self) -> FetchPosition:
        """Return from where to fetch: the log's end, or where the source's log begins if that is behind it.

        What lies before that beginning is gone, so nothing there can be compared.
        """
        log = self.partition.log
        if self._resume_at is not None and self._resume_at > log.log_end_offset:
            return FetchPosition(self._resume_at, UNDEFINED_EPOCH, self.source_leader_epoch, NOT_TOLD)
        return FetchPosition(log.log_end_offset, log.leader_epochs.latest, self.source_leader_epoch, NOT_TOLD)

    def take(self, fetched: PartitionFetched, *, log_end_offset: int, now_ms: int) -> Next:
        """Append what the source has answered, or return what its answer asks for.

        Args:
            fetched: the answer, or a piece of it.
            log_end_offset: where the log ended when it was asked for, or after the piece before.
            now_ms: the clock.
        """
        error = fetched.error_code
        if error in (ErrorCode.offset_out_of_range, ErrorCode.offset_moved_to_tiered_storage):
            return Next.FIND_START
        if error in _LED_BY_OTHERS:
            self.enter(LinkedPartitionState.WAITING, f"the source's broker answers {error.name}", now_ms)
            return Next.LOOK
        if error is not ErrorCode.none:
            self.enter(LinkedPartitionState.FAILED, f"the source answers {error.name}", now_ms)
            return Next.STOPPED
        self.answered_ms, self._source_end_offset = now_ms, fetched.high_watermark
        if self.partition.was_cut:
            self.wanted_epoch = self.leader_epoch + 1
            return Next.RAISE_EPOCH
        if fetched.diverging_epoch is not None:
            return self._has_parted(*fetched.diverging_epoch, now_ms)
        try:
            return self._append(fetched.records, log_end_offset, now_ms)
        except (FencedLeaderEpoch, NotLeaderOrFollower):
            return Next.LATER  # it was asked for in another role
        except KafkaError as refused:
            self.enter(LinkedPartitionState.FAILED, refused.message, now_ms)
            return Next.LATER

    def _append(self, records: memoryview, log_end_offset: int, now_ms: int) -> Next:
        partition = self.partition
        usable = usable_batches(
            records, last_epoch=partition.log.leader_epochs.latest, leader_epoch=self.leader_epoch
        )
        if usable.size_bytes:
            append_from_source(
                partition,
                records[: usable.size_bytes],
                leader_epoch=self.leader_epoch,
                link=self._link,
                end_offset=log_end_offset,
                now_ms=now_ms,
                is_behind_gap=self._resume_at is not None and self._resume_at > log_end_offset,
            )
        match usable.obstacle:
            case None:
                self.enter(LinkedPartitionState.RUNNING, "", now_ms)
                return Next.GO_ON
            case Obstacle.LATER_EPOCH:
                self.enter(LinkedPartitionState.RUNNING, "", now_ms)
                self.wanted_epoch = usable.leader_epoch
                return Next.RAISE_EPOCH
            case Obstacle.OLD_FORMAT:
                what = "is of a message format before version 2"
                self.enter(LinkedPartitionState.FAILED, f"the batch at offset {usable.base_offset} {what}", now_ms)
            case Obstacle.EARLIER_EPOCH:
                what = f"is of a leader epoch before {usable.leader_epoch}, to which the batch before it belongs"
                self.enter(
                    LinkedPartitionState.SOURCE_TRUNCATED, f"the batch at offset {usable.base_offset} {what}", now_ms
                )
        return Next.STOPPED

    def _has_parted(self, epoch: int, end_offset: int, now_ms: int) -> Next:
        log = self.partition.log
        if self.partition.may_be_cut:
            self.parted_at = epoch, end_offset
            self.enter(LinkedPartitionState.WAITING, "what the source does not have is being set aside", now_ms)
            return Next.SET_ASIDE
        self.enter(
            LinkedPartitionState.SOURCE_TRUNCATED,
            f"the source's leader epoch {epoch} ends at offset {end_offset}, while records of epoch"
            f" {log.leader_epochs.latest} up to {log.log_end_offset} are here: it has lost them",
            now_ms,
        )
        return Next.STOPPED

    def resume_within(self, found: SourceRange, now_ms: int) -> int | None:
        """Go on where the source's log begins, if it begins behind this one's end.

        Returns:
            Where this log is to begin, if it is empty (`begin_log_at`).
        """
        log = self.partition.log
        end_offset = log.log_end_offset
        has_lost_it = (
            found.epoch == log.leader_epochs.latest != UNDEFINED_EPOCH and found.epoch_end_offset < end_offset
        )
        if has_lost_it:
            self._has_parted(found.epoch, found.epoch_end_offset, now_ms)
            return None
        if self.partition.may_be_cut and (found.start_offset > end_offset or found.end_offset < end_offset):
            self.enter(
                LinkedPartitionState.SOURCE_TRUNCATED,
                "the source does not have any more what would tell which of the records here it has;"
                " keep a copy of the topic if you need it, delete it, and have it follow anew",
                now_ms,
            )
            return None
        if found.end_offset < end_offset:
            self.enter(
                LinkedPartitionState.SOURCE_TRUNCATED,
                f"the source ends at offset {found.end_offset}, before {end_offset}, where this log ends",
                now_ms,
            )
            return None
        if found.start_offset <= end_offset:
            self._resume_at = None
            return None
        counted_up_to = max(end_offset, self._resume_at or 0)
        self._resume_at = found.start_offset
        if end_offset > 0:  # else this log begins where the source's does
            self.records_missed += max(0, found.start_offset - counted_up_to)
        return found.start_offset if log.log_start_offset == end_offset else None

    def status(self, link_name: str) -> PartitionStatus:
        """Return how far it has come."""
        log, name = self.partition.log, self.topic_partition
        return PartitionStatus(
            link=link_name,
            topic=name.topic,
            index=name.partition,
            state=self.state,
            reason=self.reason,
            since_ms=self._since_ms,
            log_end_offset=log.log_end_offset,
            high_watermark=log.high_watermark,
            source_end_offset=self._source_end_offset,
            records_missed=self.records_missed,
            leader=self.partition.broker_id,
            leader_epoch=self.partition.state.leader_epoch,
            answered_ms=self.answered_ms,
            log_start_offset=log.log_start_offset,
        )
