"""Which transactions hang: what is open for too long and belongs to no transaction that a coordinator knows."""

from dataclasses import replace

from ottla_core.topic_partition import TopicPartition
from ottla_operations.transactions.transaction_view import (
    OpenTransaction,
    TransactionView,
    hanging,
    overdue,
    still_open,
)

FLIGHTS, TRAINS = TopicPartition("flights", 3), TopicPartition("trains", 0)


def opened(partition: TopicPartition = FLIGHTS, producer_id: int = 7, written_ms: int = 0) -> OpenTransaction:
    return OpenTransaction(
        partition=partition, producer_id=producer_id, producer_epoch=2, start_offset=10, last_written_ms=written_ms
    )


def known(*partitions: TopicPartition) -> TransactionView:
    return TransactionView(
        transactional_id="transfer",
        coordinator=1,
        state="Ongoing",
        producer_id=7,
        producer_epoch=2,
        timeout_ms=60_000,
        started_ms=0,
        partitions=partitions,
    )


def test_a_transaction_is_overdue_when_it_was_written_to_longer_ago_than_any_may_last() -> None:
    assert overdue([opened(written_ms=100)], now_ms=1100, timeout_max_ms=1000) == []
    assert overdue([opened(written_ms=99)], now_ms=1100, timeout_max_ms=1000) == [opened(written_ms=99)]


def test_one_of_a_producer_that_no_coordinator_knows_hangs() -> None:
    assert hanging([opened()], {}, {}) == [opened()]


def test_one_in_a_partition_that_its_coordinator_counts_as_a_part_is_ended_by_it() -> None:
    assert hanging([opened()], {7: "transfer"}, {"transfer": known(FLIGHTS)}) == []


def test_one_in_a_partition_that_its_coordinator_does_not_have_hangs() -> None:
    found = [opened(TRAINS), opened(FLIGHTS)]
    assert hanging(found, {7: "transfer"}, {"transfer": known(TRAINS)}) == [opened(FLIGHTS)]
    assert hanging(found, {7: "transfer"}, {"transfer": known()}) == [opened(FLIGHTS), opened(TRAINS)]


def test_of_a_transactional_id_that_goes_meanwhile_nothing_is_said() -> None:
    assert hanging([opened()], {7: "transfer"}, {}) == []


def test_one_that_was_ended_while_its_coordinator_was_asked_does_not_hang() -> None:
    """It was open first; then its marker was written, and its coordinator had no partition any more."""
    ended = hanging([opened(FLIGHTS), opened(TRAINS)], {7: "transfer"}, {"transfer": known()})
    assert still_open(ended, [opened(TRAINS, written_ms=5)]) == [opened(TRAINS)]


def test_another_transaction_of_the_same_producer_is_another_one() -> None:
    assert still_open([opened()], [replace(opened(), start_offset=11)]) == []
