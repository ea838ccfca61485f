"""Cutting a follower's log to what it has in common with its leader's.

What has to be on the disk before is written while the log is as it was, and that takes a while. So the leader epoch
is looked at again in the same step that cuts (`Partition.truncate_to`): by then this replica may lead, or follow
another leader.
"""

from collections.abc import Callable

from ottla_broker.partition import Partition


async def cut_log(partition: Partition, offset: int, *, leader_epoch: int, now_ms: Callable[[], int]) -> None:
    """Remove everything from an offset on; it is to be settled before the next fetch.

    Raises:
        KafkaError: the disk refuses, or the partition is under another leader by now; nothing was cut.
    """
    async with partition.log.truncation.prepared(offset):
        partition.truncate_to(offset, leader_epoch=leader_epoch, now_ms=now_ms())


async def cut_at_loss(partition: Partition, offset: int, *, now_ms: Callable[[], int]) -> bool:
    """Remove everything from where the disk has lost records; it is to be settled before the next fetch.

    Returns:
        Whether it was done, by this or by somebody else meanwhile: not while the replica counts as complete, for it
        might be the only one that has what is behind the loss.

    Raises:
        KafkaError: the disk refuses, or the partition is under another leader by now; nothing was cut.
    """
    leader_epoch = partition.state.leader_epoch
    async with partition.log.truncation.prepared(offset):
        if partition.log.lost_from != offset:
            return True
        if partition.counts_as_complete(partition.state):
            return False
        partition.truncate_to(offset, leader_epoch=leader_epoch, now_ms=now_ms())
    return True


async def restart_log(partition: Partition, offset: int, *, leader_epoch: int, now_ms: Callable[[], int]) -> None:
    """Drop everything and go on at an offset; it is to be settled before the next fetch.

    Raises:
        KafkaError: the disk refuses, or the partition is under another leader by now; nothing was cut.
    """
    async with partition.log.truncation.prepared(min(offset, partition.log.log_start_offset)):
        partition.restart_at(offset, leader_epoch=leader_epoch, now_ms=now_ms())
