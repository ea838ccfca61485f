"""Guards stand for one producer under one epoch, and are few."""

import pytest

from ottla_broker.log.producers import verification
from ottla_broker.log.producers.verification import Verifications
from ottla_core.errors import InvalidProducerEpoch
from ottla_core.topic_partition import TopicPartition

PARTITION = TopicPartition("flights", 0)


def begin(verifications: Verifications, producer_id: int, epoch: int, sequence: int = 0):
    return verifications.begin(PARTITION, producer_id, epoch, sequence, supports_epoch_bump=True)


def test_requests_of_one_epoch_share_a_guard_and_a_later_epoch_makes_it_void() -> None:
    verifications = Verifications()
    guard = begin(verifications, 1, 0, 5)
    assert begin(verifications, 1, 0, 3) is guard
    assert guard.lowest_sequence == 3
    later = begin(verifications, 1, 1)
    assert later is not guard
    assert not verifications.is_valid(guard, 1, 0)
    assert not verifications.is_valid(later, 1, 0)
    assert verifications.is_valid(later, 1, 1)
    with pytest.raises(InvalidProducerEpoch):
        begin(verifications, 1, 0)


def test_no_guard_is_valid_after_it_was_made_void_even_if_there_is_a_new_one() -> None:
    verifications = Verifications()
    guard = begin(verifications, 1, 0)
    verifications.void(1)
    assert not verifications.is_valid(guard, 1, 0)
    assert begin(verifications, 1, 0) is not guard
    assert not verifications.is_valid(guard, 1, 0)
    assert not verifications.is_valid(None, 1, 0)
    assert not verifications.is_valid(None, 2, 0)


def test_the_second_sweep_drops_a_guard_that_nobody_has_used() -> None:
    verifications = Verifications()
    given_up, used = begin(verifications, 1, 0), begin(verifications, 2, 0)
    verifications.sweep()
    begin(verifications, 2, 0)
    verifications.sweep()
    assert not verifications.is_valid(given_up, 1, 0)
    assert verifications.is_valid(used, 2, 0)


def test_there_are_no_more_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "GUARDS_MAX", 3)
    verifications = Verifications()
    guards = [begin(verifications, number, 0) for number in range(4)]
    assert len(verifications) == 3
    assert [verifications.is_valid(guard, number, 0) for number, guard in enumerate(guards)] == [False, *[True] * 3]
