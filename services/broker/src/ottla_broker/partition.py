"""One partition on this broker: its role, its log, and the fetches that wait for records.

A partition leads or follows as the cluster state says. Requests reach its log only through here, so that every
append and read is checked against the leadership the client believes in.
"""

from collections.abc import Callable
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_broker.log.append_validation import AppendOrigin
from ottla_broker.log.log_reader import LogSlice
from ottla_broker.log.partition_log import Appended, PartitionLog
from ottla_core.cluster.model import NO_LEADER, PartitionState
from ottla_core.errors import FencedLeaderEpoch, KafkaError, NotLeaderOrFollower, UnknownLeaderEpoch
from ottla_core.topic_partition import TopicPartition

NO_EPOCH_GIVEN = -1


class NotEnoughReplicas(KafkaError):
    """Fewer replicas are in sync than `min.insync.replicas` asks for."""

    code = ErrorCode.not_enough_replicas


class Partition:
    """A replica that this broker holds.

    Attributes:
        state: what the controller decided last.
        leads: whether this broker is the leader under its present registration.
    """

    __slots__ = ("_on_append", "broker_id", "leads", "log", "state", "topic_id", "topic_partition")

    def __init__(
        self, topic_partition: TopicPartition, log: PartitionLog, broker_id: int, state: PartitionState
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id: UUID = state.topic_id
        self.log = log
        self.broker_id = broker_id
        self.state = state
        self.leads = False
        self._on_append: set[Callable[[int], None]] = set()

    @property
    def is_only_replica(self) -> bool:
        """Whether nobody else can be elected, so that leadership outlives a lost registration."""
        return self.state.replicas == (self.broker_id,)

    @property
    def min_in_sync_replicas(self) -> int:
        """`min.insync.replicas`, but no more than there are replicas. Source: Kafka's Partition.effectiveMinIsr."""
        return min(self.log.config.min_insync_replicas, len(self.state.replicas))

    def apply(self, state: PartitionState, *, leads: bool) -> None:
        """Take over what the controller decided; a new leader epoch is recorded in the log."""
        changed = leads != self.leads or state.leader_epoch != self.state.leader_epoch
        former_high_watermark = self.log.high_watermark
        self.state = state
        self.leads = leads
        if leads and changed:
            self.log.start_leader_epoch(state.leader_epoch)
        self._advance_high_watermark()
        if changed or self.log.high_watermark != former_high_watermark:
            self.wake_all()

    def check_epoch(self, leader_epoch: int) -> None:
        """Compare the leader epoch a client knows (-1: none) with the present one.

        Raises:
            FencedLeaderEpoch: the client's is older.
            UnknownLeaderEpoch: the client's is newer than what this broker has heard of.
        """
        if leader_epoch in (NO_EPOCH_GIVEN, self.state.leader_epoch):
            return
        if leader_epoch < self.state.leader_epoch:
            raise FencedLeaderEpoch(f"{self.topic_partition} is at leader epoch {self.state.leader_epoch}")
        raise UnknownLeaderEpoch(f"{self.topic_partition} is at leader epoch {self.state.leader_epoch} here")

    def append(
        self,
        records: bytes | memoryview,
        *,
        now_ms: int,
        all_in_sync: bool,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> Appended:
        """Append one batch as the leader.

        Args:
            records: exactly one record batch.
            now_ms: the broker's clock.
            all_in_sync: whether the producer waits for all in-sync replicas (acks=all).
            origin: who has made the batch.

        Raises:
            KafkaError: the batch is refused; the log is unchanged.
        """
        if all_in_sync and len(self.state.isr) < self.min_in_sync_replicas:
            raise NotEnoughReplicas(
                f"{self.topic_partition} has {len(self.state.isr)} replicas in sync, "
                f"min.insync.replicas asks for {self.min_in_sync_replicas}"
            )
        appended = self.log.append_as_leader(
            records, leader_epoch=self.state.leader_epoch, now_ms=now_ms, origin=origin
        )
        if not appended.duplicate:
            self._advance_high_watermark()
            for notify in tuple(self._on_append):
                notify(len(records))
        return appended

    def read(self, offset: int, max_bytes: int, *, at_least_one_batch: bool) -> LogSlice | None:
        """Return record data from `offset` up to the high watermark, or None if there is none.

        Raises:
            OffsetOutOfRange: the offset is before the log start or after the end.
        """
        return self.log.read(
            offset,
            max_bytes=max_bytes,
            end_offset=self.log.high_watermark,
            at_least_one_batch=at_least_one_batch,
        )

    def call_on_append(self, notify: Callable[[int], None]) -> None:
        """Have `notify` called with the bytes of every append, and with 0 when role or in-sync set have changed."""
        self._on_append.add(notify)

    def no_longer_call(self, notify: Callable[[int], None]) -> None:
        """Undo `call_on_append`."""
        self._on_append.discard(notify)

    def wake_all(self) -> None:
        """Have every waiting fetch look again, because the partition's role or start offset changed."""
        for notify in tuple(self._on_append):
            notify(0)

    def not_leader(self) -> NotLeaderOrFollower:
        """Return the error for a request that only the leader can serve."""
        if self.state.leader == self.broker_id:
            return NotLeaderOrFollower(f"broker {self.broker_id} is not ready to lead {self.topic_partition}")
        leader = "nobody" if self.state.leader == NO_LEADER else f"broker {self.state.leader}"
        return NotLeaderOrFollower(f"{self.topic_partition} is led by {leader}, not by broker {self.broker_id}")

    def _advance_high_watermark(self) -> None:
        """Move the high watermark to the smallest end offset over the in-sync set.

        Until replicas fetch, only a leader that is alone in the in-sync set knows that offset: its own end.
        """
        if self.leads and self.state.isr == (self.broker_id,):
            self.log.high_watermark = self.log.log_end_offset
