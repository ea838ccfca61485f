"""Batches behind a refused one are refused alike."""

import pytest

from ottla_broker.partition import NotEnoughReplicas
from ottla_broker.refused_batches import REMEMBERED_MAX, REMEMBERED_SECONDS, RefusedBatches
from ottla_core.errors import NotLeaderOrFollower
from tests.support.partition_logs import batch_of

TOO_FEW = NotEnoughReplicas("too few")


def batch(sequence: int, *, producer_id: int = 7, epoch: int = 0) -> bytes:
    return batch_of(b"x", producer=(producer_id, epoch, sequence))


def refused(sequence: int, **producer: int) -> RefusedBatches:
    batches = RefusedBatches()
    batches.refused("t", 0, batch(sequence, **producer), TOO_FEW, 100.0)
    return batches


def test_a_batch_behind_a_refused_one_is_refused_for_the_same_reason() -> None:
    batches = refused(10)
    with pytest.raises(NotEnoughReplicas):
        batches.check("t", 0, batch(11), 101.0)
    with pytest.raises(NotEnoughReplicas):
        batches.check("t", 0, batch(12), 101.0)


def test_when_the_refused_batch_comes_again_the_others_may_follow() -> None:
    batches = refused(10)
    batches.check("t", 0, batch(10), 101.0)
    batches.check("t", 0, batch(11), 101.0)
    assert len(batches) == 0


def test_the_first_refusal_counts() -> None:
    batches = refused(10)
    batches.refused("t", 0, batch(11), NotLeaderOrFollower("gone"), 101.0)
    with pytest.raises(NotEnoughReplicas):
        batches.check("t", 0, batch(11), 101.0)


def test_what_was_before_the_refused_batch_may_come_again() -> None:
    refused(10).check("t", 0, batch(9), 101.0)


@pytest.mark.parametrize("other", [batch(11, producer_id=8), batch(11, epoch=1), batch_of(b"x"), b"garbage"])
def test_others_are_not_concerned(other: bytes) -> None:
    refused(10).check("t", 0, other, 101.0)


def test_other_partitions_are_not_concerned() -> None:
    refused(10).check("t", 1, batch(11), 101.0)


def test_a_refusal_is_forgotten_after_a_while() -> None:
    batches = refused(10)
    batches.check("t", 0, batch(11), 100.0 + REMEMBERED_SECONDS)
    assert len(batches) == 0


def test_only_so_many_are_remembered() -> None:
    batches = RefusedBatches()
    for number in range(REMEMBERED_MAX + 5):
        batches.refused("t", number, batch(1), TOO_FEW, 100.0)
    assert len(batches) == REMEMBERED_MAX
    batches.check("t", 0, batch(2), 101.0)


def test_what_no_idempotent_producer_sent_is_not_remembered() -> None:
    batches = RefusedBatches()
    batches.refused("t", 0, batch_of(b"x"), TOO_FEW, 100.0)
    batches.refused("t", 0, b"garbage", TOO_FEW, 100.0)
    assert len(batches) == 0
