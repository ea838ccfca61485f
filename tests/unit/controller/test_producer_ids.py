"""Blocks of producer ids."""

import pytest

from ottla_controller.producer_ids import (
    BELIEVABLE_ID_MAX,
    BLOCK_LENGTH,
    PRODUCER_ID_LEAP,
    PRODUCER_ID_MAX,
    next_block,
)
from ottla_core.errors import KafkaError


def test_blocks_follow_each_other_without_overlap() -> None:
    first = next_block(0, -1)
    second = next_block(first.first + first.length, 0)
    assert (first.first, first.length) == (0, BLOCK_LENGTH)
    assert second.first == BLOCK_LENGTH


def test_the_last_ids_are_not_handed_out_beyond_the_end() -> None:
    assert next_block(PRODUCER_ID_MAX - BLOCK_LENGTH, -1).length == BLOCK_LENGTH
    with pytest.raises(KafkaError, match="no producer ids are left"):
        next_block(PRODUCER_ID_MAX - BLOCK_LENGTH + 1, -1)


def test_a_count_that_the_logs_prove_to_be_old_goes_on_well_above_all_ids_that_may_be_kept_elsewhere() -> None:
    assert next_block(1000, 999).first == 1000
    assert next_block(1000, 1000).first == 1000 + PRODUCER_ID_LEAP
    assert next_block(1000, 7345).first == 7345 + PRODUCER_ID_LEAP
    leapt = next_block(1000, 7345)
    assert next_block(leapt.first + leapt.length, 7345).first == leapt.first + BLOCK_LENGTH


def test_an_id_that_nobody_can_have_been_given_is_not_believed() -> None:
    assert next_block(1000, BELIEVABLE_ID_MAX + 1).first == 1000
    assert next_block(1000, PRODUCER_ID_MAX).first == 1000
