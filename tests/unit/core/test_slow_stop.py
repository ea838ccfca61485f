"""What a process that takes long to stop says of itself."""

import asyncio
import threading

import structlog

from ottla_core.slow_stop import report_slow_stop, waiting_tasks, working_threads
from tests.support.eventually_async import eventually_async


async def outer(opened: asyncio.Event) -> None:
    await inner(opened)


async def inner(opened: asyncio.Event) -> None:
    await opened.wait()


async def test_a_task_is_shown_with_the_functions_that_it_is_in() -> None:
    opened = asyncio.Event()
    task = asyncio.create_task(outer(opened), name="closing a log")
    await asyncio.sleep(0)
    (shown,) = [each for each in waiting_tasks(asyncio.get_running_loop()) if each.startswith("closing a log")]
    assert [part.split()[-1] for part in shown.split(" > ")] == ["outer", "inner", "Event.wait"]
    opened.set()
    await task


async def test_a_task_that_has_not_begun_is_shown_too() -> None:
    task = asyncio.create_task(inner(asyncio.Event()), name="new")
    assert any(each.startswith("new at ") for each in waiting_tasks(asyncio.get_running_loop()))
    task.cancel()


def test_a_thread_is_shown_with_the_function_it_is_in() -> None:
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="fsync of a slow disk")
    thread.start()
    try:
        assert any(each.startswith("fsync of a slow disk at ") for each in working_threads())
        assert not any(each.startswith(threading.current_thread().name) for each in working_threads())
    finally:
        release.set()
        thread.join()


async def test_a_stop_that_goes_on_is_reported_again_and_again() -> None:
    ended = threading.Event()
    with structlog.testing.capture_logs() as entries:
        report_slow_stop(asyncio.get_running_loop(), interval_s=0.01, until=ended)
        await eventually_async(lambda: len(entries) > 1, "there are two reports")
        ended.set()
    assert {entry["event"] for entry in entries} == {"the stop takes long"}
    assert any("test_a_stop_that_goes_on" in task for task in entries[0]["tasks"])
