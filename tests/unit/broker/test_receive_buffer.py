"""Memory for arriving requests grows with what has arrived and is reused."""

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


def test_the_budget_refuses_what_does_not_fit_but_never_the_oldest() -> None:
    unit = UNRESERVED_FRAME_BYTES + 1
    budget = RequestBudget(3 * unit)
    assert budget.reserve("a", 50 * unit)
    assert not budget.reserve("b", unit)
    budget.release("a")
    assert budget.reserve("b", unit)
    assert budget.reserve("c", 2 * unit)
    assert not budget.reserve("c", 3 * unit), "it is not the oldest"
    assert budget.reserved == 3 * unit
    assert budget.reserve("b", 5 * unit), "it is the oldest, and nobody could go on if it could not"
    budget.release("b")
    assert budget.reserve("c", 9 * unit)
    budget.release("c")
    assert budget.reserved == 0


def test_small_frames_need_no_reservation() -> None:
    budget = RequestBudget(1)
    assert budget.reserve("large", 10**9)
    assert budget.reserve("small", UNRESERVED_FRAME_BYTES)
    budget.release("small")
    assert budget.reserved == 10**9


def test_a_frame_asks_for_the_memory_it_needs_and_not_for_what_it_announces() -> None:
    frame = PartialFrame(BufferPool(), 100_000_000, memoryview(b"12345"))
    assert frame.buffer_bytes == 2 * SMALLEST_BUFFER_BYTES
    frame.received = frame.buffer_bytes
    assert frame.buffer_bytes == 8 * SMALLEST_BUFFER_BYTES


def test_a_frame_falls_behind_after_two_slow_windows_on_end() -> None:
    frame = PartialFrame(BufferPool(), 1_000_000, memoryview(b"12345"), now=100.0)
    assert not frame.falls_behind(104.0, 5.0, 1000.0), "the window is not over"
    assert not frame.falls_behind(105.0, 5.0, 1000.0), "the loop may have been held up"
    frame.received += 5000
    assert not frame.falls_behind(110.0, 5.0, 1000.0), "fast enough"
    frame.received += 4999
    assert not frame.falls_behind(115.0, 5.0, 1000.0)
    frame.received += 4999
    assert frame.falls_behind(120.0, 5.0, 1000.0)
    frame.restart_window(120.0)
    assert not frame.falls_behind(125.0, 5.0, 1000.0)
