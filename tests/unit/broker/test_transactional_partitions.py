"""Transactions in partitions: guards and leadership, and what readers of committed records are given."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla_broker.fetch_reading import FetchTerms, look, note_told
from ottla_broker.fetch_sessions import FetchSession, FetchSessionCache
from ottla_broker.log.appends.append_validation import AppendOrigin
from ottla_broker.log.partition.read_isolation import ReadIsolation
from ottla_broker.partition import Partition
from ottla_broker.replication.following import append_from_leader
from ottla_core.errors import InvalidProducerEpoch, InvalidTransactionState, NotLeaderOrFollower
from ottla_core.wire.control_records import TransactionMarker, marker_batch
from tests.support.broker.partition_logs import NOW_MS, read_batches
from tests.support.broker.readable_partitions import (
    BROKER,
    FOLLOWER,
    PLENTY_BYTES,
    STATE,
    ReadablePartitions,
    append,
    asked,
    replicate,
    session_of,
)
from tests.support.broker.transactional_logs import transactional_batch
from tests.unit.broker.test_delayed_fetch import WaitingReader

P, Q = 7, 8


@pytest.fixture
def partitions(tmp_path: Path) -> Iterator[ReadablePartitions]:
    partitions = ReadablePartitions(tmp_path)
    yield partitions
    partitions.close()


def write(partition: Partition, value: bytes, sequence: int, producer_id: int = P) -> int:
    """Append one batch of a transaction, verified if need be; return its size."""
    batch = transactional_batch(value, producer=(producer_id, 0, sequence))
    guard = None
    if partition.needs_verification(batch):
        guard = partition.begin_verification(producer_id, 0, sequence, supports_epoch_bump=False)
    partition.append(batch, now_ms=NOW_MS, all_in_sync=True, verification=guard)
    return len(batch)


def end(partition: Partition, *, commit: bool, producer_id: int = P) -> int:
    """Append a marker; return its size."""
    marker = TransactionMarker(producer_id=producer_id, producer_epoch=0, is_commit=commit, coordinator_epoch=0)
    batch = marker_batch(marker, NOW_MS)
    partition.append(batch, now_ms=NOW_MS, all_in_sync=True, origin=AppendOrigin.COORDINATOR, transaction_version=1)
    return len(batch)


def fetched(partitions: ReadablePartitions, offset: int = 0, **fields: Any):
    """What a fetch of committed records without a session is answered."""
    terms = FetchTerms(PLENTY_BYTES, **{"only_leader": True, "read_committed": True, **fields})
    (found,) = look(session_of(asked(0, offset)), terms, partitions, only_news=False).found
    return found.outcome


# Guards


def test_a_guard_does_not_outlive_the_leadership_it_was_taken_under(partitions: ReadablePartitions) -> None:
    partition = partitions.add()
    batch = transactional_batch(b"a", producer=(P, 0, 0))
    assert partition.needs_verification(batch)
    guard = partition.begin_verification(P, 0, 0, supports_epoch_bump=False)
    partition.apply(replace(STATE, leader=FOLLOWER, leader_epoch=1), leads=False)
    with pytest.raises(NotLeaderOrFollower):
        partition.begin_verification(P, 0, 0, supports_epoch_bump=False)
    partition.apply(replace(STATE, leader=BROKER, leader_epoch=2), leads=True)
    with pytest.raises(InvalidTransactionState):
        partition.append(batch, now_ms=NOW_MS, all_in_sync=True, verification=guard)


def test_a_guard_does_not_outlive_an_election_of_the_same_leader(partitions: ReadablePartitions) -> None:
    partition = partitions.add()
    guard = partition.begin_verification(P, 0, 0, supports_epoch_bump=False)
    partition.apply(replace(STATE, isr=(BROKER,), partition_epoch=101), leads=True)
    assert partition.log.transactions.verifications.is_valid(guard, P, 0), "it was no election"
    partition.apply(replace(STATE, leader_epoch=1), leads=True)
    batch = transactional_batch(b"a", producer=(P, 0, 0))
    with pytest.raises(InvalidTransactionState):
        partition.append(batch, now_ms=NOW_MS, all_in_sync=True, verification=guard)


def test_no_guard_is_given_to_a_former_epoch(partitions: ReadablePartitions) -> None:
    partition = partitions.add()
    guard = partition.begin_verification(P, 1, 0, supports_epoch_bump=True)
    batch = transactional_batch(b"a", producer=(P, 1, 0))
    partition.append(batch, now_ms=NOW_MS, all_in_sync=True, verification=guard)
    with pytest.raises(InvalidProducerEpoch):
        partition.begin_verification(P, 0, 0, supports_epoch_bump=True)


# Reading


def test_a_follower_forgets_ended_transactions_though_nobody_reads_there(
    partitions: ReadablePartitions, tmp_path: Path
) -> None:
    leading = ReadablePartitions(tmp_path / "leader")
    (tmp_path / "leader").mkdir()
    leader, follower = leading.add(), partitions.add(leads=False)
    for number in range(5):
        write(leader, b"a", number)
        end(leader, commit=True)
        watermark = follower.log.log_end_offset
        copied = b"".join(batch for _, batch in read_batches(leader.log, watermark))
        append_from_leader(
            follower, copied, leader_epoch=0, high_watermark=watermark, log_start_offset=0, now_ms=NOW_MS
        )
    assert follower.log.producers.transactions.kept_count == 1, "of the last one the marker is not replicated"
    leading.close()


def test_who_reads_committed_records_is_told_of_aborts_and_the_last_stable_offset(
    partitions: ReadablePartitions,
) -> None:
    partition = partitions.add()
    size = append(partition) + write(partition, b"a", 0) + write(partition, b"q", 0, Q)
    replicate(partition)
    outcome = fetched(partitions)
    assert (outcome.high_watermark, outcome.last_stable_offset, outcome.aborted) == (3, 1, [])
    size += end(partition, commit=False) + end(partition, commit=True, producer_id=Q)
    replicate(partition)
    outcome = fetched(partitions)
    assert outcome.records is not None
    assert (outcome.last_stable_offset, outcome.aborted, outcome.records.size) == (5, [(P, 1)], size)
    assert fetched(partitions, 4).aborted == []
    assert fetched(partitions, read_committed=False).aborted == ()
    assert partition.end_for(ReadIsolation.LAST_STABLE_OFFSET) == 5


def test_a_follower_serves_readers_of_committed_records_as_its_leader_does(
    partitions: ReadablePartitions, tmp_path: Path
) -> None:
    leading = ReadablePartitions(tmp_path / "leader")
    (tmp_path / "leader").mkdir()
    leader, follower = leading.add(), partitions.add(leads=False)
    append(leader)
    write(leader, b"a", 0)
    end(leader, commit=False)
    write(leader, b"b", 1)
    replicate(leader)

    def take_over(high_watermark: int) -> None:
        batches = b"".join(batch for _, batch in read_batches(leader.log, follower.log.log_end_offset))
        append_from_leader(
            follower, batches, leader_epoch=0, high_watermark=high_watermark, log_start_offset=0, now_ms=NOW_MS
        )

    take_over(2)
    assert fetched(partitions, only_leader=False).last_stable_offset == 1, "the marker is not known to be replicated"
    take_over(4)
    outcome = fetched(partitions, only_leader=False)
    assert (outcome.high_watermark, outcome.last_stable_offset, outcome.aborted) == (4, 3, [(P, 1)])
    leading.close()


async def test_a_waiting_reader_of_committed_records_is_answered_when_the_end_of_a_transaction_is_replicated(
    partitions: ReadablePartitions,
) -> None:
    partition = partitions.add()
    reader = WaitingReader(partitions, session_of(asked()), read_committed=True)
    size = write(partition, b"a", 0)
    replicate(partition)
    assert not await reader.is_answered()
    size += end(partition, commit=True)
    assert not await reader.is_answered()
    replicate(partition)
    assert await reader.result() == b"%d" % size


async def test_a_session_hears_of_records_when_they_are_decided(partitions: ReadablePartitions) -> None:
    partition = partitions.add()
    session: FetchSession = session_of(asked())
    FetchSessionCache(1, lambda: 5).keep(session, 0)
    terms = FetchTerms(PLENTY_BYTES, only_leader=True, read_committed=True)

    def news() -> list[int | None]:
        reading = look(session, terms, partitions, only_news=True)
        note_told(session, reading)
        return [found.outcome.records and found.outcome.records.size for found in reading.found]

    news()
    size = write(partition, b"a", 0)
    replicate(partition)
    assert news() == [None], "the high watermark has moved"
    assert news() == []
    size += end(partition, commit=False)
    assert news() == []
    replicate(partition)
    assert news() == [size]
