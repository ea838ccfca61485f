"""Memory for arriving requests grows with what has arrived and is reused."""

import pytest

from ottla_broker.receive_buffer import (
    SMALLEST_BUFFER_BYTES,
    UNRESERVED_FRAME_BYTES,
    BufferPool,
    PartialFrame,
    RequestBudget,
)


def test_a_frame_is_put_together_from_pieces() -> None:
    content = bytes(range(256)) * 400
    frame = PartialFrame(BufferPool(), len(content), memoryview(content[:5]))

    while not frame.complete:
        space = frame.free_space()
        count = min(len(space), 3000)
        space[:count] = content[frame.received : frame.received + count]
        frame.received += count

    assert frame.content() == content
    assert frame.content().readonly


def test_a_length_that_promises_much_costs_little() -> None:
    pool = BufferPool()
    frame = PartialFrame(pool, 100_000_000, memoryview(b"12345"))

    assert len(frame.free_space()) <= 2 * SMALLEST_BUFFER_BYTES


def test_free_space_never_reaches_beyond_the_frame() -> None:
    frame = PartialFrame(BufferPool(), 10, memoryview(b"123"))

    assert len(frame.free_space()) == 7


def test_buffers_are_reused_up_to_a_limit() -> None:
    pool = BufferPool(pooled_bytes_max=8192)
    first, second = pool.take(8000), pool.take(8000)
    pool.give_back(first)
    pool.give_back(second)

    assert pool.take(5000) is first
    assert pool.take(5000) is not second


def test_a_frame_takes_a_buffer_of_its_full_size_where_one_is_at_hand() -> None:
    pool = BufferPool()
    buffer = pool.take(1_000_000)
    pool.give_back(buffer)

    assert len(PartialFrame(pool, 1_000_000, memoryview(b"beginning")).free_space()) == 1_000_000 - 9


def test_the_budget_refuses_what_does_not_fit_but_admits_one_frame_of_any_size() -> None:
    unit = UNRESERVED_FRAME_BYTES + 1
    budget = RequestBudget(3 * unit)
    assert budget.reserve(50 * unit)
    assert not budget.reserve(unit)
    budget.release(50 * unit)
    assert budget.reserve(2 * unit)
    assert not budget.reserve(2 * unit)
    assert budget.reserve(unit)


def test_small_frames_need_no_reservation() -> None:
    budget = RequestBudget(1)
    assert budget.reserve(10**9)
    assert budget.reserve(UNRESERVED_FRAME_BYTES)
    budget.release(UNRESERVED_FRAME_BYTES)
    assert budget.reserved == 10**9


def test_releasing_more_than_was_reserved_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        RequestBudget(10).release(10**6)
