"""Partitions that fetches are tried out on: real logs and real rules, without a broker around them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from ottla_broker.fetch_sessions import FetchSession, Named
from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_core.cluster.state.model import PartitionState
from ottla_core.errors import UnknownTopicOrPartition
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.replica_fetch_request import PartitionFetch
from tests.support.broker.partition_logs import NOW_MS, batch_of, open_log

TOPIC = "flights"
BROKER, FOLLOWER, OTHER_FOLLOWER = 1, 2, 3
LAG_MAX_MS = 30_000
PLENTY_BYTES = 1 << 20
STATE = PartitionState(
    topic_id=UUID(int=1),
    index=0,
    replicas=(BROKER, FOLLOWER, OTHER_FOLLOWER),
    isr=(BROKER, FOLLOWER),
    leader=BROKER,
    leader_epoch=0,
    leader_broker_epoch=71,
    partition_epoch=100,
)


class ReadablePartitions:
    """A broker's partitions as fetches find them.

    Attributes:
        now_ms: the monotonic clock.
        finds: how often a partition was looked for.
    """

    def __init__(self, directory: Path, *, config: TopicConfig | None = None) -> None:
        self._directory = directory
        self._config = config
        self._partitions: dict[tuple[Named, int], Partition] = {}
        self._log_count = 0
        self.now_ms = 0
        self.finds = 0
        clock: Callable[[], int] = lambda: self.now_ms  # noqa: E731
        self._context = ReplicationContext(BROKER, LAG_MAX_MS, clock, frozenset({BROKER, FOLLOWER, OTHER_FOLLOWER}))

    def add(self, index: int = 0, *, topic: Named = TOPIC, leads: bool = True, isr: Sequence[int] = ()) -> Partition:
        """A new partition with an empty log."""
        self._log_count += 1
        log = open_log(self._directory / str(self._log_count), config=self._config)
        state = replace(STATE, index=index, isr=tuple(isr) or STATE.isr)
        if not leads:
            state = replace(state, leader=FOLLOWER)
        partition = Partition(TopicPartition(str(topic), index), log, self._context, state)
        partition.apply(state, leads=leads)
        self._partitions[topic, index] = partition
        return partition

    def remove(self, index: int = 0, *, topic: Named = TOPIC) -> None:
        """The partition's topic is deleted."""
        partition = self._partitions.pop((topic, index))
        partition.step_down()
        partition.log.abandon()

    def get(self, index: int = 0) -> Partition | None:
        return self._partitions.get((TOPIC, index))

    def leader_of(self, named: Named, index: int) -> Partition:
        """As `PartitionTable.leader_of`."""
        partition = self.readable_replica(named, index)
        if not partition.leads:
            raise partition.not_leader()
        return partition

    def replica_of(self, named: Named, index: int) -> Partition:
        """As `PartitionTable.replica_of`."""
        return self.readable_replica(named, index)

    def readable_replica(self, named: Named, index: int) -> Partition:
        """As `PartitionTable.readable_replica`."""
        self.finds += 1
        partition = self._partitions.get((named, index))
        if partition is None:
            raise UnknownTopicOrPartition(f"{named}-{index}")
        return partition

    def close(self) -> None:
        for partition in self._partitions.values():
            partition.log.abandon()


def append(partition: Partition, *values: bytes) -> int:
    """Append one batch; return its size in bytes."""
    batch = batch_of(*(values or (b"x",)))
    partition.append(batch, now_ms=NOW_MS, all_in_sync=False)
    return len(batch)


def replicate(partition: Partition, offset: int | None = None) -> None:
    """The follower that is in sync has everything, or everything before an offset."""
    contact = FollowerContact(FOLLOWER, 72, 0)
    end = partition.log.log_end_offset if offset is None else offset
    partition.record_follower_fetch(contact, offset=end, log_start_offset=0)


def asked(
    index: int = 0,
    offset: int = 0,
    *,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    log_start_offset: int = -1,
    max_bytes: int = PLENTY_BYTES,
) -> PartitionFetch:
    """What a reader asks of one partition."""
    return PartitionFetch(index, leader_epoch, offset, last_fetched_epoch, log_start_offset, max_bytes)


def session_of(*partitions: PartitionFetch, follower: FollowerContact | None = None) -> FetchSession:
    """A session that no cache keeps yet."""
    session = FetchSession(follower=follower, uses_topic_ids=False)
    for partition in partitions:
        session.ask(TOPIC, partition)
    return session
