"""What a follower does with its leader's answers: appending, cutting and restarting its log.

An answer counts only under the leader epoch in which it was asked for. So each function compares that epoch in the
step that changes the log: after an election somebody else may lead, or this replica itself.
"""

from ottla_broker.partition import Partition
from ottla_broker.replica.follower_replica import truncation_offset
from ottla_core.errors import FencedLeaderEpoch


def append_from_leader(
    partition: Partition,
    records: bytes | memoryview,
    *,
    leader_epoch: int,
    high_watermark: int,
    log_start_offset: int,
    now_ms: int,
) -> None:
    """Take over what the leader answered to a fetch.

    Args:
        partition: this replica.
        records: whole batches, or nothing.
        leader_epoch: under which the fetch was made.
        high_watermark: the leader's.
        log_start_offset: the leader's.
        now_ms: the broker's clock.

    Raises:
        FencedLeaderEpoch, UnknownLeaderEpoch: the answer, or a batch in it, is of another leader epoch.
        KafkaError: a batch is damaged or the disk refuses it; those before it are appended.
    """
    _check_follows(partition, leader_epoch)
    if len(records):
        partition.log.append_as_follower(records, now_ms=now_ms, leader_epoch=leader_epoch)
    partition.awaits_first_answer = False
    log = partition.log
    if partition.broker_id in partition.state.isr and log.log_end_offset >= high_watermark:
        log.may_lack_end = False  # the leader is above doubt, as it answers; see `Partition.apply`
    if partition.was_begun_anew and log.log_end_offset >= high_watermark:
        partition.was_begun_anew = False  # a proposal that is under way keeps the leader's from going on without us
    partition.set_high_watermark(max(log.high_watermark, min(high_watermark, log.log_end_offset)))
    if log_start_offset > log.log_start_offset:
        log.delete_records_before(min(log_start_offset, log.high_watermark))


def diverging_offset(partition: Partition, epoch: int, end_offset: int, *, leader_epoch: int) -> int:
    """Return where to cut the log, because it parts from the leader's.

    Args:
        partition: this replica.
        epoch: the largest epoch that the leader knows up to that of this log's last record.
        end_offset: where that epoch ends in the leader's log.
        leader_epoch: under which the fetch was made.

    Raises:
        FencedLeaderEpoch, UnknownLeaderEpoch: the answer is of another leader epoch.
    """
    _check_follows(partition, leader_epoch)
    return truncation_offset(partition.log, epoch, end_offset)


def truncate_to(partition: Partition, offset: int, *, leader_epoch: int, now_ms: int) -> None:
    """Cut the log where it parts from the leader's, or at the end of the leader's, which is shorter.

    Both are prepared by the log before, and settled after (`truncation.py`).

    Raises:
        FencedLeaderEpoch, UnknownLeaderEpoch: the answer is of another leader epoch.
        KafkaStorageError: the disk failed.
    """
    _check_follows(partition, leader_epoch)
    partition.log.truncate_to(offset, now_ms)


def restart_at(partition: Partition, offset: int, *, leader_epoch: int, now_ms: int) -> None:
    """Drop everything and go on at `offset`, where the leader's log begins.

    Raises:
        FencedLeaderEpoch, UnknownLeaderEpoch: the answer is of another leader epoch.
        KafkaStorageError: the disk failed.
    """
    _check_follows(partition, leader_epoch)
    partition.log.truncate_fully_and_start_at(offset, now_ms)
    partition.set_high_watermark(offset)


def _check_follows(partition: Partition, leader_epoch: int) -> None:
    """See that what a leader says is still to be done: not after an election, and not by the leader itself."""
    if partition.leads:
        raise FencedLeaderEpoch(f"this broker leads {partition.topic_partition}")
    partition.check_epoch(leader_epoch)
