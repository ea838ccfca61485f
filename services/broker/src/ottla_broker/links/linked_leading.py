"""What the leader of a partition does that follows one of another cluster: appending, cutting and beginning its log.

What is to be done was decided by what the source had answered, maybe long before. So each function compares the role,
the leader epoch, the link and the log with what they were then, in the step that changes the log.
"""

from typing import Final
from uuid import UUID

import structlog

from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.producers.left_open import abort_of_source, open_before_gap
from ottla_broker.partition import Partition
from ottla_core.errors import FencedLeaderEpoch
from ottla_core.wire.control_records import marker_batch
from ottla_core.wire.record_batch import parse_header

_logger: Final = structlog.get_logger("links")


def append_from_source(
    partition: Partition,
    records: bytes | memoryview,
    *,
    leader_epoch: int,
    link: UUID,
    end_offset: int,
    now_ms: int,
    is_behind_gap: bool = False,
) -> None:
    """Append batches of the source as they are, as the leader that follows it.

    Args:
        partition: this broker's replica.
        records: whole batches.
        leader_epoch: in which they were asked for.
        link: the id of the link that they came through.
        end_offset: where the log ended when they were asked for.
        now_ms: the broker's clock.
        is_behind_gap: whether the source has deleted what lay between there and the batches.

    Raises:
        NotLeaderOrFollower, FencedLeaderEpoch: this broker leads no longer, or anew, or follows another link or
            none, or the log has changed; nothing was appended.
        UnknownLeaderEpoch: a batch is of a later epoch than this leader's; those before it are appended.
        KafkaError: a batch is damaged or the disk refuses it; those before it are appended.
    """
    leader, log = partition.leader, partition.log
    if leader is None:
        raise partition.not_leader()
    if (
        partition.state.leader_epoch != leader_epoch
        or partition.state.link != link
        or log.log_end_offset != end_offset
        or partition.was_cut
    ):
        raise FencedLeaderEpoch(f"{partition.topic_partition} is not what it was when its source was asked")
    aborts = _aborts_in_gap(log, records) if is_behind_gap and log.has_open_transactions else b""
    try:
        if aborts:
            log.append_as_follower(aborts, now_ms=now_ms, leader_epoch=leader_epoch)
        log.append_as_follower(records, now_ms=now_ms, leader_epoch=leader_epoch)
    finally:
        if log.log_end_offset != end_offset:
            partition.has_grown(leader, end_offset, len(aborts) + len(records))


def _aborts_in_gap(log: PartitionLog, records: bytes | memoryview) -> bytes:
    """Return markers for what is open before a gap, at offsets of records that are lost; they follow the log's end.

    How it has ended was told there, or not yet; whether records of it are lost nobody can tell. They are of the epoch
    of what follows: where the one before ends in the source must not seem to lie behind what is here of it.

    Raises:
        CorruptMessage: what follows does not begin with a batch.
    """
    header = parse_header(records)
    found = open_before_gap(log.producers, header.base_offset - log.log_end_offset)
    if found:
        _logger.warning(
            "transactions are aborted here, since the source has deleted what came next of them, or their ends",
            partition=str(log.topic_partition),
            transactions=len(found),
            offset=header.base_offset,
        )
    return b"".join(
        marker_batch(abort_of_source(each), each.last_timestamp, base_offset=offset, leader_epoch=header.leader_epoch)
        for offset, each in enumerate(found, log.log_end_offset)
    )


def cut_to_source(
    partition: Partition, offset: int, *, leader_epoch: int, link: UUID, end_offset: int, now_ms: int
) -> None:
    """Cut off what was written here and the source does not have; it has been set aside up to `end_offset`.

    What is known of the followers is forgotten, since their logs may have what is cut; they cut it when they
    fetch. To be prepared and settled as with `truncate_to`.

    Consumers must have been held before, and groups been set back since: whoever reads on behind the cut skips what
    comes there. Those without a group learn by a later leader epoch that they have to compare their positions
    (KIP-320), so under this one nothing is read or appended any more.

    Raises:
        FencedLeaderEpoch: this broker does not lead under this epoch and link, records behind the offset were not
            written here, consumers are not held, or the log has changed; nothing was cut.
        KafkaStorageError: the disk failed.
    """
    log, state = partition.log, partition.state
    is_due = partition.leader is not None and state.leader_epoch == leader_epoch and state.link == link
    was_written_here = log.leader_epochs.latest <= state.set_aside_up_to
    if not is_due or not was_written_here or not partition.holds_readers or log.log_end_offset != end_offset:
        raise FencedLeaderEpoch(f"{partition.topic_partition} is not what it was when its source was asked")
    log.truncate_to(offset, now_ms)
    partition.cut_in_epoch = leader_epoch
    # Else a record of the source at an offset of one that was cut would count as that one's being replicated.
    partition.forget_followers(f"{partition.topic_partition} follows another cluster now")


def begin_log_at(partition: Partition, offset: int, *, leader_epoch: int, link: UUID, now_ms: int) -> None:
    """Have a log that is empty begin where the source's does; prepared and settled as with `restart_at`.

    Raises:
        FencedLeaderEpoch: this broker does not lead under this epoch and link, or the log is not empty.
        KafkaStorageError: the disk failed.
    """
    log = partition.log
    is_due = (
        partition.leader is not None and partition.state.leader_epoch == leader_epoch and partition.state.link == link
    )
    if not is_due or log.log_start_offset != log.log_end_offset or log.log_end_offset > offset:
        raise FencedLeaderEpoch(f"{partition.topic_partition} is not what it was when its source was asked")
    log.truncate_fully_and_start_at(offset, now_ms)
    partition.set_high_watermark(offset)
    partition.tell_change()
