"""Epochs and guards: which records and markers of transactional producers a shard takes."""

from itertools import count
from uuid import UUID

import pytest

from ottla_core.errors import InvalidProducerEpoch, InvalidRecord, TransactionCoordinatorFenced
from ottla_core.wire.control_records import TransactionMarker
from ottla_group_coordinator import transaction_producers
from ottla_group_coordinator.runtime.turn import TransactionProducer
from ottla_group_coordinator.transaction_producers import PRODUCER_KEPT_MS, TransactionProducers

NOW_MS = 1_700_000_000_000
LEGACY, RAISING = 1, 2


@pytest.fixture
def producers() -> TransactionProducers:
    numbers = count(100)
    return TransactionProducers(lambda: UUID(int=next(numbers)))


def producer(epoch: int, id_: int = 70) -> TransactionProducer:
    return TransactionProducer(id_, epoch)


def marker(epoch: int, *, coordinator_epoch: int = 0, id_: int = 70) -> TransactionMarker:
    return TransactionMarker(
        producer_id=id_, producer_epoch=epoch, is_commit=True, coordinator_epoch=coordinator_epoch
    )


def write(producers: TransactionProducers, epoch: int, *, now_ms: int = NOW_MS, id_: int = 70) -> bool:
    drops = producers.on_producer(producer(epoch, id_), now_ms)
    producers.on_records(producer(epoch, id_))
    return drops


def test_a_transaction_is_open_from_its_records_to_its_marker(producers: TransactionProducers) -> None:
    assert not producers.is_open(producer(3))
    write(producers, 3)
    assert producers.is_open(producer(3))
    assert not producers.is_open(producer(2))
    assert not producers.is_open(producer(4))
    assert not producers.is_open(producer(3, id_=71))
    producers.on_marker(marker(4), NOW_MS)
    assert not producers.is_open(producer(3))
    assert not producers.is_open(producer(4))


def test_a_guard_stands_for_one_epoch_of_one_producer(producers: TransactionProducers) -> None:
    guard = producers.begin_verification(producer(3))
    assert producers.is_verified(producer(3), guard)
    assert producers.begin_verification(producer(3)) == guard
    assert not producers.is_verified(producer(3), None)
    assert not producers.is_verified(producer(3), guard + 1)
    assert not producers.is_verified(producer(4), guard)
    assert not producers.is_verified(producer(3, id_=71), guard)


def test_a_marker_makes_a_guard_void(producers: TransactionProducers) -> None:
    guard = producers.begin_verification(producer(3))
    producers.on_marker(marker(3), NOW_MS)
    assert not producers.is_verified(producer(3), guard)
    assert producers.begin_verification(producer(3)) != guard


def test_records_make_a_guard_void(producers: TransactionProducers) -> None:
    guard = producers.begin_verification(producer(3))
    write(producers, 3)
    assert not producers.is_verified(producer(3), guard)


def test_an_epoch_that_the_producer_may_never_have_had_stands_in_no_ones_way(producers: TransactionProducers) -> None:
    invented = producers.begin_verification(producer(4))
    right = producers.begin_verification(producer(3))
    assert producers.is_verified(producer(3), right)
    assert producers.is_verified(producer(4), invented)
    assert invented != right


def test_records_make_the_guards_of_all_epochs_void(producers: TransactionProducers) -> None:
    earlier, later = (producers.begin_verification(producer(epoch)) for epoch in (3, 4))
    write(producers, 4)
    assert not producers.is_verified(producer(3), earlier)
    assert not producers.is_verified(producer(4), later)


def test_another_owner_of_the_shard_knows_no_guard_of_the_former_one() -> None:
    numbers = count(100)
    first, second = (TransactionProducers(lambda: UUID(int=next(numbers))) for _ in range(2))
    guard = first.begin_verification(producer(3))
    assert second.begin_verification(producer(3)) != guard
    assert not second.is_verified(producer(3), guard)


def test_the_oldest_guard_gives_way_when_there_are_too_many(
    producers: TransactionProducers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_producers, "GUARDS_MAX", 2)
    guards = [producers.begin_verification(producer(0, id_=number)) for number in range(3)]
    stand = [producers.is_verified(producer(0, id_=number), guard) for number, guard in enumerate(guards)]
    assert stand == [False, True, True]


def test_records_of_an_earlier_epoch_are_refused(producers: TransactionProducers) -> None:
    producers.check_records(producer(0))
    producers.on_marker(marker(4), NOW_MS)
    with pytest.raises(InvalidProducerEpoch):
        producers.check_records(producer(3))
    producers.check_records(producer(4))
    producers.check_records(producer(5))


def test_an_epoch_is_known_also_from_a_batch_that_has_no_records_any_more(producers: TransactionProducers) -> None:
    assert not producers.on_producer(producer(4), NOW_MS)
    assert not producers.is_open(producer(4))
    with pytest.raises(InvalidProducerEpoch):
        producers.check_records(producer(3))


def test_what_is_open_under_an_earlier_epoch_is_to_be_dropped(producers: TransactionProducers) -> None:
    assert not write(producers, 3)
    assert not write(producers, 3)
    assert write(producers, 4)
    producers.on_marker(marker(5), NOW_MS)
    assert not write(producers, 6), "nothing was open"


@pytest.mark.parametrize("version", [LEGACY, RAISING])
def test_a_marker_of_an_earlier_epoch_is_refused(producers: TransactionProducers, version: int) -> None:
    write(producers, 3)
    with pytest.raises(InvalidProducerEpoch):
        producers.check_marker(marker(2), version)
    assert producers.check_marker(marker(4), version)


def test_a_marker_that_does_not_raise_the_epoch_ends_no_transaction_of_version_2(
    producers: TransactionProducers,
) -> None:
    write(producers, 3)
    assert producers.check_marker(marker(3), LEGACY)
    with pytest.raises(InvalidProducerEpoch):
        producers.check_marker(marker(3), RAISING)


def test_a_marker_of_version_2_that_comes_again_is_there_already(producers: TransactionProducers) -> None:
    write(producers, 3)
    producers.on_marker(marker(4), NOW_MS)
    assert not producers.check_marker(marker(4), RAISING)
    assert producers.check_marker(marker(4), LEGACY), "it may be that of another transaction"
    write(producers, 4)
    with pytest.raises(InvalidProducerEpoch):
        producers.check_marker(marker(4), RAISING)


def test_a_marker_of_a_former_coordinator_is_refused(producers: TransactionProducers) -> None:
    producers.on_marker(marker(4, coordinator_epoch=9), NOW_MS)
    with pytest.raises(TransactionCoordinatorFenced):
        producers.check_marker(marker(5, coordinator_epoch=8), RAISING)
    assert producers.check_marker(marker(5, coordinator_epoch=9), RAISING)
    assert producers.check_marker(marker(5, coordinator_epoch=8, id_=71), RAISING)


def test_silent_producers_are_forgotten_but_for_those_with_an_open_transaction(
    producers: TransactionProducers,
) -> None:
    for id_, now_ms in ((70, NOW_MS), (71, NOW_MS), (72, NOW_MS + 1)):
        write(producers, 3, now_ms=now_ms, id_=id_)
        if id_ != 71:
            producers.on_marker(marker(4, id_=id_), now_ms)
    producers.forget_silent(NOW_MS + PRODUCER_KEPT_MS)
    assert [producers.get(id_) is None for id_ in (70, 71, 72)] == [True, False, False]


@pytest.mark.parametrize(("id_", "epoch"), [(-1, 0), (70, -1)])
def test_a_marker_of_no_producer_is_refused_as_the_log_would_refuse_it(
    producers: TransactionProducers, id_: int, epoch: int
) -> None:
    with pytest.raises(InvalidRecord):
        producers.check_marker(marker(epoch, id_=id_), LEGACY)


def test_a_marker_of_no_coordinator_is_refused_as_the_log_would_refuse_it(producers: TransactionProducers) -> None:
    with pytest.raises(TransactionCoordinatorFenced):
        producers.check_marker(marker(0, coordinator_epoch=-1), LEGACY)
