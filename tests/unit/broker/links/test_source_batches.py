"""Which of a source's batches may be appended: all up to the first that may not, and never one behind it."""

from dataclasses import replace

import pytest

from ottla_broker.links.source_batches import AppendablePrefix, Obstacle, usable_batches
from tests.support.messages.record_batches import Batch, batch_of, old_message

TRANSACTIONAL = 0x10
CONTROL = 0x20


def batch(base_offset: int, epoch: int, *, attributes: int = 0) -> Batch:
    return replace(
        batch_of([b"a", b"b"]), base_offset=base_offset, partition_leader_epoch=epoch, attributes=attributes
    )


def usable(*data: bytes, last_epoch: int = -1, leader_epoch: int = 5) -> AppendablePrefix:
    return usable_batches(memoryview(b"".join(data)), last_epoch=last_epoch, leader_epoch=leader_epoch)


FIRST, SECOND = batch(0, 3).encode(), batch(2, 5).encode()


def test_all_batches_up_to_the_leaders_epoch_may_be_appended() -> None:
    assert usable(FIRST, SECOND) == AppendablePrefix(len(FIRST + SECOND), None, 5)
    assert usable() == AppendablePrefix(0, None, -1)
    assert usable(last_epoch=4) == AppendablePrefix(0, None, 4)


@pytest.mark.parametrize(
    ("data", "obstacle", "epoch"),
    [
        (batch(4, 6).encode(), Obstacle.LATER_EPOCH, 6),
        (batch(4, 4).encode(), Obstacle.EARLIER_EPOCH, 5),
        (old_message(b"x", magic=1, offset=4), Obstacle.OLD_FORMAT, 5),
    ],
)
def test_what_may_not_be_appended_is_stopped_at(data: bytes, obstacle: Obstacle, epoch: int) -> None:
    assert usable(FIRST, SECOND, data, FIRST) == AppendablePrefix(len(FIRST + SECOND), obstacle, epoch, 4)


@pytest.mark.parametrize("attributes", [TRANSACTIONAL, CONTROL | TRANSACTIONAL, CONTROL])
def test_batches_of_transactions_and_their_markers_are_taken_as_all_others(attributes: int) -> None:
    data = batch(4, 5, attributes=attributes).encode()
    assert usable(FIRST, SECOND, data) == AppendablePrefix(len(FIRST + SECOND + data), None, 5)


def test_a_first_batch_of_an_epoch_before_the_logs_is_of_another_history() -> None:
    assert usable(FIRST, last_epoch=4).obstacle is Obstacle.EARLIER_EPOCH


def test_what_is_damaged_or_cut_off_is_left_to_the_append() -> None:
    cut = SECOND[:-1]
    assert usable(FIRST, cut) == AppendablePrefix(len(FIRST + cut), None, 3)
    damaged = replace(batch(2, 5), batch_length=3).encode()
    assert usable(FIRST, damaged) == AppendablePrefix(len(FIRST + damaged), None, 3)
