"""Transactions in the log of a partition, as clients and coordinators write them, and what readers see of them."""

from dataclasses import dataclass

from ottla_broker.log.appends.append_result import AppendResult
from ottla_broker.log.appends.append_validation import AppendOrigin
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.segments.segment import LogSegment
from ottla_broker.log.segments.transaction_index import AbortedTransaction
from ottla_core.wire.control_records import TransactionMarker, marker_batch, read_marker
from ottla_core.wire.record_batch import iterate_batches
from ottla_core.wire.records import Record, encode_batch, iterate_records
from tests.support.broker.partition_logs import NOW_MS, read_batches

KEY = b"key"


def transactional_batch(
    *values: bytes | None,
    producer: tuple[int, int, int],
    base_offset: int = 0,
    leader_epoch: int = -1,
    key: bytes = KEY,
    now_ms: int = NOW_MS,
) -> bytes:
    """One batch of a transaction; `producer` is id, epoch and base sequence (-1 for a coordinator's)."""
    records = [Record(base_offset + delta, now_ms, key, value) for delta, value in enumerate(values)]
    return encode_batch(
        records, producer_id=producer[0], producer_epoch=producer[1], base_sequence=producer[2],
        leader_epoch=leader_epoch, is_transactional=True,
    )  # fmt: skip


def write(
    log: PartitionLog,
    *values: bytes | None,
    producer: tuple[int, int, int],
    supports_epoch_bump: bool = False,
    leader_epoch: int = 0,
    key: bytes = KEY,
    now_ms: int = NOW_MS,
    replicated: bool = True,
) -> AppendResult:
    """Append a client's batch of a transaction, verified if it begins one."""
    batch = transactional_batch(*values, producer=producer, key=key, now_ms=now_ms)
    guard = None
    if log.transactions.needs_verification(batch):
        guard = log.transactions.begin_verification(*producer, supports_epoch_bump=supports_epoch_bump)
    appended = log.append_as_leader(batch, leader_epoch=leader_epoch, now_ms=now_ms, verification=guard)
    if replicated:
        log.high_watermark = log.log_end_offset
    return appended


def end(
    log: PartitionLog,
    producer_id: int,
    epoch: int,
    *,
    commit: bool,
    coordinator_epoch: int = 0,
    transaction_version: int = 1,
    leader_epoch: int = 0,
    now_ms: int = NOW_MS,
    replicated: bool = True,
) -> AppendResult:
    """Append a marker."""
    marker = TransactionMarker(
        producer_id=producer_id, producer_epoch=epoch, is_commit=commit, coordinator_epoch=coordinator_epoch
    )
    appended = log.append_as_leader(
        marker_batch(marker, now_ms), leader_epoch=leader_epoch, now_ms=now_ms, origin=AppendOrigin.COORDINATOR,
        transaction_version=transaction_version,
    )  # fmt: skip
    if replicated:
        log.high_watermark = log.log_end_offset
    return appended


def followed(leader: PartitionLog, follower: PartitionLog, now_ms: int = NOW_MS) -> None:
    """Have a follower take over all that it lacks."""
    batches = read_batches(leader, follower.log_end_offset)
    follower.append_as_follower(b"".join(batch for _, batch in batches), now_ms=now_ms)
    follower.high_watermark = follower.log_end_offset


@dataclass(frozen=True)
class Seen:
    """A record as a reader of committed records gets it."""

    offset: int
    key: bytes | None
    value: bytes | None


def committed(log: PartitionLog, offset: int | None = None, *, max_bytes: int = 1 << 20) -> list[Seen]:
    """Read committed records as a consumer does: up to the last stable offset, without what the answers call aborted.

    Each answer is taken by itself, as by a consumer that forgets what it was told before.
    """
    position = log.log_start_offset if offset is None else offset
    seen: list[Seen] = []
    while True:
        end_offset = log.last_stable_offset
        found = log.read(position, max_bytes=max_bytes, end_offset=end_offset, at_least_one_batch=True)
        if found is None:
            return seen
        waiting = log.aborted_in(position, found)
        assert waiting == sorted(waiting, key=lambda entry: entry[1]), "in the order of first offsets"
        aborting: set[int] = set()
        for header, batch in iterate_batches(found.read()):
            while waiting and waiting[0][1] <= header.last_offset:
                aborting.add(waiting.pop(0)[0])
            marker = read_marker(batch, header)
            if marker is not None and not marker.is_commit:
                aborting.discard(header.producer_id)
            if not header.is_control and not (header.is_transactional and header.producer_id in aborting):
                seen += [
                    Seen(record.offset, record.key, record.value)
                    for record in iterate_records(batch, header)
                    if record.offset >= position
                ]
            next_offset = header.next_offset
        position = next_offset


def committed_values(log: PartitionLog, offset: int | None = None, **how: int) -> list[bytes | None]:
    """The values of what `committed` gives."""
    return [seen.value for seen in committed(log, offset, **how)]


def aborts(log: PartitionLog) -> list[AbortedTransaction]:
    """All entries of the transaction indexes."""
    return [entry for segment in log.segments for entry in aborts_in(segment)]


def aborts_in(segment: LogSegment) -> list[AbortedTransaction]:
    """The entries of one segment's transaction index."""
    return segment.transaction_index.overlapping(0, 2**63 - 1)[0]
