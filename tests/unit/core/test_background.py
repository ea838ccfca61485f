"""What becomes of background tasks that fail, and that services start them in this one way only."""

import ast
import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla_core import background as module
from ottla_core.background import (
    BackgroundFailed,
    background,
    failures,
    start_detached,
    start_recurring,
    start_thread,
    start_vital,
)
from ottla_core.lifecycle import wait_for_end
from tests.support.eventually_async import eventually_async

ROOT = Path(__file__).parents[3]
SOURCES = (ROOT / "core" / "src", *sorted((ROOT / "services").glob("*/src")))
STARTERS = {"create_task", "ensure_future", "run_coroutine_threadsafe", "Thread", "Timer"}


class Defect(Exception):
    pass


async def fail() -> None:
    raise Defect


@pytest.fixture(autouse=True)
def counted() -> Iterator[None]:
    failures.clear()
    yield
    failures.clear()


async def test_a_vital_task_that_fails_ends_the_process() -> None:
    start_vital("heart", fail())
    with pytest.raises(BackgroundFailed, match=r"'heart'.*Defect"):
        await asyncio.wait_for(wait_for_end(asyncio.Event()), 10)
    assert failures == {"heart": 1}
    assert background().failing == {"heart": 1}


async def test_a_vital_task_that_ends_or_is_cancelled_is_no_failure() -> None:
    task = start_vital("heart", asyncio.sleep(0))
    await task
    cancelled = start_vital("heart", asyncio.Event().wait())  # type: ignore[arg-type]
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    assert not background().vital_failure.done()
    assert not failures


async def test_a_recurring_task_starts_anew_until_it_works_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PAUSE_S_MIN", 0.001)
    runs = other_runs = 0
    seen_failing = False

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs <= 3:
            raise Defect

    async def other() -> None:
        nonlocal other_runs
        while runs <= 3:
            other_runs += 1
            await asyncio.sleep(0)

    def look() -> None:
        nonlocal seen_failing
        seen_failing = seen_failing or bool(background().failing)

    background().listeners.append(look)
    await asyncio.wait_for(asyncio.gather(start_recurring("duty", work), start_recurring("other", other)), 10)
    assert runs == 4
    assert failures == {"duty": 3}
    assert other_runs
    assert seen_failing
    assert not background().failing


async def test_the_pauses_of_a_recurring_task_grow_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    original = asyncio.timeout

    def timeout(delay: float) -> asyncio.Timeout:
        pauses.append(delay)
        return original(0)

    monkeypatch.setattr(module.asyncio, "timeout", timeout)
    task = start_recurring("duty", fail)
    while len(pauses) < 12:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert pauses[-1] == module.PAUSE_S_MAX
    assert not background().failing


async def test_a_pause_ends_with_what_the_task_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_S_MIN", 3600.0)
    stopping = asyncio.Event()
    task = start_recurring("duty", fail, until=stopping)
    await eventually_async(lambda: bool(background().failing), "it pauses")
    stopping.set()
    await asyncio.wait_for(task, 10)
    assert failures == {"duty": 1}


async def test_a_detached_task_that_fails_is_counted_and_tells_who_would_wait() -> None:
    told = asyncio.Event()
    await start_detached("piece", fail(), on_failure=told.set)
    assert told.is_set()
    assert failures == {"piece": 1}
    assert not background().vital_failure.done()


async def test_a_thread_that_fails_is_counted() -> None:
    def work() -> None:
        raise Defect

    await asyncio.to_thread(start_thread("thread", work).join)
    assert failures == {"thread": 1}
    assert threading.current_thread().is_alive()


async def test_a_task_is_kept_though_nobody_refers_to_it() -> None:
    done = asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(0)
        done.set()

    start_detached("piece", work())
    await eventually_async(done.is_set, "it has run")


def bare_starts(source: str) -> list[int]:
    """The lines that start a task or thread outside the mechanism; those of a TaskGroup are awaited by it."""
    tree = ast.parse(source)
    groups = {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncWith)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name) and "TaskGroup" in ast.unparse(item.context_expr)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any("Thread" in ast.unparse(base) for base in node.bases):
            found.append(node.lineno)
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name in STARTERS and not (isinstance(owner, ast.Name) and owner.id in groups):
            found.append(node.lineno)
    return found


def test_services_and_core_start_tasks_and_threads_in_one_way_only() -> None:
    files = [path for folder in SOURCES for path in folder.rglob("*.py") if path != Path(module.__file__)]
    assert len(files) > 200
    bare = [f"{path.relative_to(ROOT)}:{line}" for path in files for line in bare_starts(path.read_text())]
    assert not bare, "start these by ottla_core.background"


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("asyncio.create_task(work())", 1),
        ("self._loop.create_task(work())", 1),
        ("ensure_future(work())", 1),
        ("threading.Thread(target=work)", 1),
        ("class T(threading.Thread): pass", 1),
        ("async def f():\n async with asyncio.TaskGroup() as group:\n  group.create_task(work())", 0),
        ("start_vital('work', work())", 0),
    ],
)
def test_the_walk_knows_a_bare_start(source: str, count: int) -> None:
    assert len(bare_starts(source)) == count
