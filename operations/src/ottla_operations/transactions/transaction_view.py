"""Transactions as coordinators and partitions tell of them, and which of these hang. Pure.

A transaction is open in a partition from its first record there until its marker. Who reads committed records reads
none behind an open one. Its coordinator ends every transaction that it knows, at its time-out at the latest. One that
is open for longer than any may last, in a partition that no coordinator counts as a part, stays open for ever: it
*hangs* (KIP-664, KAFKA-14402).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ottla_core.topic_partition import TopicPartition

NO_COORDINATOR_EPOCH = 0
"""Written with a marker where the partition has never had one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    """A transactional id in a list."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionView:
    """What a coordinator knows of a transactional id.

    Attributes:
        state: such as `Ongoing` or `CompleteCommit`.
        started_ms: when the transaction began, in milliseconds since 1970; None while there is none.
        partitions: those that it has.
    """

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    partitions: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that is open in a partition.

    Attributes:
        start_offset: of its first record there.
        last_written_ms: when its producer has written there for the last time, in milliseconds since 1970.
        coordinator_epoch: of the last marker of its producer there.
    """

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    start_offset: int
    last_written_ms: int
    coordinator_epoch: int = NO_COORDINATOR_EPOCH


def overdue(found: Iterable[OpenTransaction], *, now_ms: int, timeout_max_ms: int) -> list[OpenTransaction]:
    """Return the transactions that were last written to longer ago than any may last."""
    return [each for each in found if now_ms - each.last_written_ms > timeout_max_ms]


def hanging(
    found: Iterable[OpenTransaction],
    transactional_ids: Mapping[int, str],
    views: Mapping[str, TransactionView],
) -> list[OpenTransaction]:
    """Return those among overdue transactions that no coordinator will end.

    Args:
        found: what is open and overdue.
        transactional_ids: by producer id, as coordinators list them now.
        views: by transactional id. One that has gone between the questions is missing: nothing is said of it.
    """
    hang: list[OpenTransaction] = []
    for each in found:
        transactional_id = transactional_ids.get(each.producer_id)
        view = None if transactional_id is None else views.get(transactional_id)
        if transactional_id is None or (view is not None and each.partition not in view.partitions):
            hang.append(each)
    return sorted(hang, key=lambda each: (each.partition, each.start_offset))


def still_open(found: Iterable[OpenTransaction], now_open: Iterable[OpenTransaction]) -> list[OpenTransaction]:
    """Return those that are open after their coordinators were asked, too.

    A coordinator forgets a partition once its marker is written there, which may be after the partition was asked.
    """
    left = {(each.partition, each.producer_id, each.start_offset) for each in now_open}
    return [each for each in found if (each.partition, each.producer_id, each.start_offset) in left]
