"""Batches behind a refused one are refused alike."""

from traceback import walk_tb

import pytest

from ottla_broker.log.producers.producer_state import ProducerStates
from ottla_broker.partition_context import NotEnoughReplicas
from ottla_broker.refused_batches import REMEMBERED_MAX, REMEMBERED_SECONDS, RefusedBatches
from ottla_core.errors import NotLeaderOrFollower
from ottla_core.wire.record_batch import parse_header
from tests.support.broker.partition_logs import PARTITION, batch_of

TOO_FEW = NotEnoughReplicas("too few")
NOTHING_KNOWN = ProducerStates(PARTITION)


def batch(sequence: int, *, producer_id: int = 7, epoch: int = 0) -> bytes:
    return batch_of(b"x", producer=(producer_id, epoch, sequence))


def refused(sequence: int, **producer: int) -> RefusedBatches:
    batches = RefusedBatches()
    batches.refused("t", 0, batch(sequence, **producer), TOO_FEW, 100.0)
    return batches


def test_a_batch_behind_a_refused_one_is_refused_for_the_same_reason() -> None:
    batches = refused(10)
    with pytest.raises(NotEnoughReplicas):
        batches.check("t", 0, batch(11), 101.0, NOTHING_KNOWN)
    with pytest.raises(NotEnoughReplicas):
        batches.check("t", 0, batch(12), 101.0, NOTHING_KNOWN)


def test_what_is_remembered_does_not_hold_on_to_the_requests_that_were_refused() -> None:
    try:
        raise NotLeaderOrFollower("gone")
    except NotLeaderOrFollower as error:
        batches = RefusedBatches()
        batches.refused("t", 0, batch(10), error, 100.0)
    refusals: list[NotLeaderOrFollower] = []
    for sequence in (11, 12, 13):
        with pytest.raises(NotLeaderOrFollower, match="gone") as refusal:
            batches.check("t", 0, batch(sequence), 101.0, NOTHING_KNOWN)
        refusals.append(refusal.value)
    depths = [len(list(walk_tb(each.__traceback__))) for each in refusals]
    assert depths == [2, 2, 2]


def test_when_the_refused_batch_comes_again_the_others_may_follow() -> None:
    batches = refused(10)
    batches.check("t", 0, batch(10), 101.0, NOTHING_KNOWN)
    batches.check("t", 0, batch(11), 101.0, NOTHING_KNOWN)
    assert len(batches) == 0


def test_what_the_log_lacks_nothing_before_is_taken_since_another_leader_took_the_refused_batch() -> None:
    batches, producers = refused(10), ProducerStates(PARTITION)
    for sequence in (9, 10, 11):
        producers.replay(parse_header(batch(sequence)))
    with pytest.raises(NotEnoughReplicas):
        batches.check("t", 0, batch(13), 101.0, producers)
    batches.check("t", 0, batch(12), 101.0, producers)
    assert len(batches) == 0


def test_the_first_refusal_counts() -> None:
    batches = refused(10)
    batches.refused("t", 0, batch(11), NotLeaderOrFollower("gone"), 101.0)
    with pytest.raises(NotEnoughReplicas):
        batches.check("t", 0, batch(11), 101.0, NOTHING_KNOWN)


def test_what_was_before_the_refused_batch_may_come_again() -> None:
    batches, producers = refused(10), ProducerStates(PARTITION)
    producers.replay(parse_header(batch(9)))
    batches.check("t", 0, batch(9), 101.0, producers)
    with pytest.raises(NotEnoughReplicas):
        batches.check("t", 0, batch(11), 101.0, producers)


@pytest.mark.parametrize("other", [batch(11, producer_id=8), batch(11, epoch=1), batch_of(b"x"), b"garbage"])
def test_others_are_not_concerned(other: bytes) -> None:
    refused(10).check("t", 0, other, 101.0, NOTHING_KNOWN)


def test_other_partitions_are_not_concerned() -> None:
    refused(10).check("t", 1, batch(11), 101.0, NOTHING_KNOWN)


def test_a_refusal_is_forgotten_after_a_while() -> None:
    batches = refused(10)
    batches.check("t", 0, batch(11), 100.0 + REMEMBERED_SECONDS, NOTHING_KNOWN)
    assert len(batches) == 0


@pytest.mark.parametrize(("sequence", "later_s"), [(10, 1.0), (12, REMEMBERED_SECONDS)])
def test_a_batch_that_is_refused_again_or_after_the_others_time_is_remembered_from_then_on(
    sequence: int, later_s: float
) -> None:
    batches = refused(10)
    batches.refused("t", 0, batch(sequence), TOO_FEW, 100.0 + later_s)
    with pytest.raises(NotEnoughReplicas):
        batches.check("t", 0, batch(13), 99.0 + later_s + REMEMBERED_SECONDS, NOTHING_KNOWN)
    assert len(batches) == 1


def test_only_so_many_are_remembered() -> None:
    batches = RefusedBatches()
    for number in range(REMEMBERED_MAX + 5):
        batches.refused("t", number, batch(1), TOO_FEW, 100.0)
    assert len(batches) == REMEMBERED_MAX
    batches.check("t", 0, batch(2), 101.0, NOTHING_KNOWN)


def test_what_no_idempotent_producer_sent_is_not_remembered() -> None:
    batches = RefusedBatches()
    batches.refused("t", 0, batch_of(b"x"), TOO_FEW, 100.0)
    batches.refused("t", 0, b"garbage", TOO_FEW, 100.0)
    assert len(batches) == 0
