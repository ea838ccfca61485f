"""Buffers of large answers: used again only when nobody has a view of them, and bounded."""

from ottla_core.client.frame_buffers import POOLED_BYTES_MAX, STEP_BYTES, FrameBuffers

MEBIBYTE = 1024 * 1024


def test_memory_is_used_again_once_all_views_of_it_are_gone():
    buffers = FrameBuffers()
    first = buffers.take(MEBIBYTE)
    memory = id(first.obj)
    del first
    again = buffers.take(MEBIBYTE - 1000)
    assert id(again.obj) == memory
    assert len(again) == MEBIBYTE - 1000
    assert buffers.size_bytes == MEBIBYTE


def test_memory_is_not_used_again_while_a_part_of_it_is_kept():
    buffers = FrameBuffers()
    frame = buffers.take(MEBIBYTE)
    frame[500:510] = b"0123456789"
    kept = frame[500:510]
    del frame
    for _ in range(20):
        buffers.take(MEBIBYTE)[:] = bytes(MEBIBYTE)
    held = [buffers.take(MEBIBYTE) for _ in range(20)]
    for each in held:
        each[:] = bytes(MEBIBYTE)
    assert kept == b"0123456789"
    assert len({id(each.obj) for each in held} | {id(kept.obj)}) == 21


def test_no_more_is_kept_than_the_bound_whoever_asks_for_what():
    buffers = FrameBuffers()
    held = [buffers.take(size) for size in range(100_000, 5 * MEBIBYTE, 333_333)]
    assert buffers.size_bytes <= POOLED_BYTES_MAX
    del held
    large = buffers.take(POOLED_BYTES_MAX)
    assert len(large) == POOLED_BYTES_MAX
    assert buffers.size_bytes <= POOLED_BYTES_MAX


def test_free_buffers_make_room_for_those_of_another_size():
    buffers = FrameBuffers(4 * STEP_BYTES)
    small = [buffers.take(STEP_BYTES) for _ in range(4)]
    assert len(buffers.take(2 * STEP_BYTES).obj) == 2 * STEP_BYTES, "a buffer of its own, as all are in use"
    assert buffers.size_bytes == 4 * STEP_BYTES
    kept = small[0]
    kept[:4] = b"kept"
    small.clear()
    large = buffers.take(2 * STEP_BYTES)
    memory = id(large.obj)
    del large
    assert id(buffers.take(2 * STEP_BYTES).obj) == memory
    assert buffers.size_bytes <= 4 * STEP_BYTES
    assert kept[:4] == b"kept"


def test_a_small_answer_does_not_take_a_large_buffer():
    buffers = FrameBuffers()
    buffers.take(4 * MEBIBYTE)
    assert len(buffers.take(100_000).obj) == STEP_BYTES
