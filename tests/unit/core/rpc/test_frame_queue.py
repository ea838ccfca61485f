"""Frames gather into messages of bounded size, in order."""

import asyncio

import pytest

from ottla_core.rpc import frame_queue
from ottla_core.rpc.frame_queue import GATHERED_BYTES_MAX, GATHERING_FRAMES_MIN, FrameQueue
from ottla_proto.gen.ottla.group_relay_pb2 import Frame, GroupResponse


def add(queue: FrameQueue, frame_id: int, size: int = 10) -> None:
    added = queue.add(size)
    added.id = frame_id
    added.group_response.frame = bytes(size)


async def taken(queue: FrameQueue) -> list[list[int]]:
    """The ids of the frames of all messages that wait."""
    messages = []
    while queue:
        messages.append([frame.id for frame in (await queue.take()).frames])
    return messages


async def test_what_has_gathered_leaves_together_and_in_order() -> None:
    queue = FrameQueue()
    for number in range(100):
        add(queue, number)

    assert await taken(queue) == [list(range(100))]
    assert queue.size_bytes == 0


async def test_a_message_does_not_grow_without_bound() -> None:
    queue = FrameQueue()
    for number in range(5):
        add(queue, number, GATHERED_BYTES_MAX * 2 // 5)

    assert await taken(queue) == [[0, 1], [2, 3], [4]]


async def test_a_frame_that_is_larger_leaves_alone() -> None:
    queue = FrameQueue()
    add(queue, 1)
    add(queue, 2, 3 * GATHERED_BYTES_MAX)
    add(queue, 3)

    assert await taken(queue) == [[1], [2], [3]]


async def test_a_frame_that_exists_is_added_as_it_is() -> None:
    queue = FrameQueue()
    frame = Frame(id=7, group_response=GroupResponse(frame=b"answer"))

    queue.put(frame)

    assert list((await queue.take()).frames) == [frame]


async def test_taking_waits_for_a_frame() -> None:
    queue = FrameQueue()
    taking = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    assert not taking.done()

    add(queue, 1)

    assert [frame.id for frame in (await taking).frames] == [1]


async def test_a_message_of_many_frames_makes_the_next_one_wait_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_queue, "GATHERING_S", 0.0)  # one turn of the loop
    queue = FrameQueue()
    for number in range(GATHERING_FRAMES_MIN):
        add(queue, number)
    await queue.take()

    add(queue, 100)
    taking = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    assert not taking.done()
    add(queue, 101)

    assert [frame.id for frame in (await taking).frames] == [100, 101]
    add(queue, 102)
    assert len((await queue.take()).frames) == 1
    add(queue, 103)  # behind a frame that came alone, nothing waits
    taking = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    assert taking.done()


async def test_what_fills_a_message_does_not_wait_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_queue, "GATHERING_S", 3600.0)
    queue = FrameQueue()
    for number in range(GATHERING_FRAMES_MIN):
        add(queue, number)
    await queue.take()

    add(queue, 100, GATHERED_BYTES_MAX)
    add(queue, 101)

    async with asyncio.timeout(10):
        assert [frame.id for frame in (await queue.take()).frames] == [100]


@pytest.mark.parametrize("waiting", [1000, 2000])
async def test_who_can_wait_waits_for_room(waiting: int) -> None:
    queue = FrameQueue()
    add(queue, 1, waiting)
    putting_off = asyncio.create_task(queue.wait_until_below(1000))
    await asyncio.sleep(0)
    assert not putting_off.done()

    await queue.take()

    await putting_off
