"""Cutting a follower's log to what it has in common with its leader's.

What has to be on the disk before is written while the log is as it was, and that takes a while. So the leader epoch
and the log's end are looked at again in the same step that cuts: by then this replica may lead, or follow another
leader, or another fetcher may have appended what the leader takes for stored here.
"""

from collections.abc import Callable

from ottla_broker.partition import Partition
from ottla_broker.replication.following import restart_at, truncate_to
from ottla_core.errors import NotLeaderOrFollower


async def cut_log(
    partition: Partition, offset: int, *, leader_epoch: int, end_offset: int, now_ms: Callable[[], int]
) -> None:
    """Remove everything from an offset on; it is to be settled before the next fetch.

    Args:
        partition: the replica.
        offset: where to cut.
        leader_epoch: under which that was decided.
        end_offset: where the log ended then.
        now_ms: the clock.

    Raises:
        KafkaError: the disk refuses, the partition is under another leader by now, or its log has changed; nothing
            was cut.
    """
    async with partition.log.truncation.prepared(offset):
        _check_end(partition, end_offset)
        truncate_to(partition, offset, leader_epoch=leader_epoch, now_ms=now_ms())


async def cut_at_loss(partition: Partition, offset: int, *, leader_epoch: int, now_ms: Callable[[], int]) -> bool:
    """Remove everything from where the disk has lost records; it is to be settled before the next fetch.

    Args:
        partition: the replica.
        offset: where the loss begins.
        leader_epoch: in which a leader has answered this replica; one whose log might be shorter does not.
        now_ms: the clock.

    Returns:
        Whether it was done, by this or by somebody else meanwhile: not while the replica counts as complete, for it
        might be the only one that has what is behind the loss.

    Raises:
        KafkaError: the disk refuses, or the partition is under another leader by now; nothing was cut.
    """
    if partition.counts_as_complete(partition.state):
        return False
    async with partition.log.truncation.prepared(offset):
        if partition.log.lost_from != offset:
            return True
        if partition.counts_as_complete(partition.state):
            return False
        truncate_to(partition, offset, leader_epoch=leader_epoch, now_ms=now_ms())
    return True


async def restart_log(
    partition: Partition, offset: int, *, leader_epoch: int, end_offset: int, now_ms: Callable[[], int]
) -> None:
    """Drop everything and go on at an offset; it is to be settled before the next fetch.

    Arguments and errors are those of `cut_log`.
    """
    async with partition.log.truncation.prepared(min(offset, partition.log.log_start_offset)):
        _check_end(partition, end_offset)
        restart_at(partition, offset, leader_epoch=leader_epoch, now_ms=now_ms())


def _check_end(partition: Partition, end_offset: int) -> None:
    if partition.log.log_end_offset != end_offset:
        raise NotLeaderOrFollower(
            f"{partition.topic_partition} ends at {partition.log.log_end_offset}, no longer at {end_offset} as when "
            "its log was compared with the leader's"
        )
