"""Cuts of a follower's log: what was decided is looked at again when the disk is ready for it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from ottla_broker.log.partition.truncation import TruncationContext
from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.replication.following import append_from_leader
from ottla_broker.replication.truncation import cut_log, restart_log
from ottla_core.cluster.state.model import PartitionState
from ottla_core.errors import FencedLeaderEpoch, KafkaError, NotLeaderOrFollower
from ottla_core.topic_partition import TopicPartition
from tests.support.broker.partition_logs import NOW_MS, PARTITION, batch_of, open_log

STATE = PartitionState(topic_id=UUID(int=1), index=0, replicas=(1, 2), isr=(1, 2), leader=2, leader_epoch=5)


@pytest.fixture
def follower(tmp_path: Path) -> Partition:
    """A replica with three records."""
    partition = Partition(PARTITION, open_log(tmp_path), ReplicationContext(1, 30_000, int), STATE)
    for _ in range(3):
        copy_record(partition)
    return partition


def copy_record(partition: Partition) -> None:
    batch = batch_of(b"x", base_offset=partition.log.log_end_offset, leader_epoch=5)
    append_from_leader(partition, batch, leader_epoch=5, high_watermark=0, log_start_offset=0, now_ms=NOW_MS)


def next_epoch(partition: Partition) -> None:
    partition.apply(replace(STATE, leader_epoch=6, partition_epoch=1), leads=False)


@pytest.mark.parametrize(
    ("meanwhile", "error"), [(copy_record, NotLeaderOrFollower), (next_epoch, FencedLeaderEpoch)]
)
@pytest.mark.parametrize("cut", [cut_log, restart_log])
async def test_a_log_that_has_changed_while_the_disk_got_ready_is_not_cut(
    follower: Partition, meanwhile: Callable[[Partition], None], error: type[KafkaError], cut: Callable[..., object]
) -> None:
    async def write_checkpoints(_: TopicPartition) -> None:
        meanwhile(follower)

    follower.log.truncation.context = TruncationContext(write_checkpoints)
    before = follower.log.log_end_offset
    with pytest.raises(error):
        await cut(follower, 1, leader_epoch=5, end_offset=3, now_ms=lambda: NOW_MS)  # type: ignore[misc]
    assert follower.log.log_end_offset >= before


@pytest.mark.parametrize(("cut", "kept"), [(cut_log, (0, 1)), (restart_log, (1, 1))])
async def test_a_log_that_is_as_it_was_is_cut(
    follower: Partition, cut: Callable[..., object], kept: tuple[int, int]
) -> None:
    await cut(follower, 1, leader_epoch=5, end_offset=3, now_ms=lambda: NOW_MS)  # type: ignore[misc]
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == kept
