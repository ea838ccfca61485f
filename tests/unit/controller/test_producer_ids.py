"""Blocks of producer ids."""

import pytest

from ottla_controller.producer_ids import BLOCK_LENGTH, PRODUCER_ID_MAX, next_block
from ottla_core.errors import KafkaError


def test_blocks_follow_each_other_without_overlap() -> None:
    first = next_block(0)
    second = next_block(first.first + first.length)
    assert (first.first, first.length) == (0, BLOCK_LENGTH)
    assert second.first == BLOCK_LENGTH


def test_the_last_ids_are_not_handed_out_beyond_the_end() -> None:
    assert next_block(PRODUCER_ID_MAX - BLOCK_LENGTH).length == BLOCK_LENGTH
    with pytest.raises(KafkaError, match="no producer ids are left"):
        next_block(PRODUCER_ID_MAX - BLOCK_LENGTH + 1)
