"""Replicas of one partition, for tests of their rules: of three in sync, of which broker 1 leads."""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_core.cluster.state.model import PartitionState
from ottla_core.topic_config import TopicConfig
from tests.support.broker.partition_logs import NOW_MS, PARTITION, batch_of, open_log, read_batches

STATE = PartitionState(
    topic_id=UUID(int=1),
    index=0,
    replicas=(1, 2, 3),
    isr=(1, 2, 3),
    leader=1,
    leader_epoch=5,
    leader_broker_epoch=71,
    partition_epoch=100,
)
LAG_MAX_MS = 30_000


class Clock:
    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def log_bytes(partition: Partition) -> bytes:
    return b"".join(batch for _, batch in read_batches(partition.log))


def append(partition: Partition, *, all_in_sync: bool = True) -> int:
    """Append a batch of one record; return the log's end."""
    appended = partition.append(batch_of(b"x"), now_ms=NOW_MS, all_in_sync=all_in_sync)
    return appended.last_offset + 1


def fetch(partition: Partition, follower: int, offset: int) -> None:
    partition.record_follower_fetch(FollowerContact(follower, 70 + follower, 0), offset=offset, log_start_offset=0)


def replica_maker(tmp_path: Path) -> Callable[..., Partition]:
    """What makes the replica of a broker, with a log of its own."""

    def partition(broker_id: int = 1, *, min_isr: int = 1) -> Partition:
        directory = tmp_path / f"{broker_id}"
        directory.mkdir()
        context = ReplicationContext(broker_id, LAG_MAX_MS, Clock(), frozenset({1, 2, 3}))
        log = open_log(directory, config=TopicConfig(min_insync_replicas=min_isr))
        return Partition(PARTITION, log, context, STATE)

    return partition
