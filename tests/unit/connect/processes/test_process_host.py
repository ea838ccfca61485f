"""Real processes that behave well and badly, and what their worker makes of it."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from ottla_connect.processes import child_process
from ottla_connect.processes.host import ASKS_MAX, ChildProcess, Exit, ProcessFailed, ProcessHost, ProcessLimits
from ottla_connect.processes.messages import (
    DescribeConfig,
    Failed,
    FromProcess,
    Lease,
    ListPlugins,
    PluginsListed,
    RunTask,
    SetLogLevel,
    Stopped,
    TopicsUsed,
)
from tests.support.connect.process_behaviours import ENTRY, EXIT_CODE
from tests.support.eventually_async import eventually_async
from tests.support.machine.process_stat import has_ended

pytestmark = pytest.mark.asyncio(loop_scope="module")

MEBIBYTE = 1024 * 1024
ROOT = Path(__file__).parents[4]


class Owner:
    """Starts processes, and notes what it is told about one of them."""

    def __init__(self, host: ProcessHost) -> None:
        self.host = host
        self.messages: list[FromProcess] = []
        self.ends: list[Exit] = []
        self.child: ChildProcess

    async def spawn(self, do: str, *, task: int = 0, memory_bytes: int = 0) -> ChildProcess:
        self.child = await self.host.spawn(
            RunTask(connector=do, task=task, connector_settings={}, settings={"do": do}, worker={}),
            limits=ProcessLimits(memory_bytes=memory_bytes),
            on_message=self.messages.append,
            on_exit=self.ends.append,
        )
        assert self.child.pid > 0
        return self.child

    async def message(self) -> FromProcess:
        await eventually_async(lambda: self.messages, "a message has come")
        return self.messages[0]

    async def end(self) -> Exit:
        await eventually_async(lambda: self.ends, "the process has ended")
        assert has_ended(self.child.pid)
        assert self.child.pid not in children_of(self.host.launcher_pid)
        return self.ends[0]


def open_files() -> list[str]:
    found = []
    for each in Path("/proc/self/fd").iterdir():
        try:
            found.append(str(each.readlink()))
        except FileNotFoundError:
            continue
    return sorted(found)


async def files_of_idle(host: ProcessHost) -> list[str]:
    """The files that are open once the processes of earlier tests have gone."""
    await eventually_async(lambda: not host.process_count, "earlier processes have gone")
    return open_files()


@pytest.fixture(scope="module", autouse=True)
def importable_behaviours() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_host(importable_behaviours: object) -> AsyncIterator[ProcessHost]:
    host = ProcessHost(memory_check_interval_s=0.02, entry=ENTRY)
    await host.start()
    yield host
    await host.close()


@pytest_asyncio.fixture(loop_scope="module")
async def owner(shared_host: ProcessHost) -> AsyncIterator[Owner]:
    """An owner whose process leaves nothing behind."""
    before = await files_of_idle(shared_host)
    made = Owner(shared_host)
    yield made
    if not made.ends:
        made.child.kill()
        await made.end()
    assert len(made.ends) == 1
    assert open_files() == before


async def test_a_process_stops_when_it_is_asked_to(owner: Owner) -> None:
    child = await owner.spawn("be_idle")
    await owner.message()
    assert not has_ended(child.pid)
    await child.stop(grace_s=10)
    end = await owner.end()
    assert isinstance(owner.messages[-1], Stopped)
    assert (end.exit_code, end.signal, end.reason) == (0, None, "stopped")


async def test_a_process_that_does_not_stop_is_killed(owner: Owner) -> None:
    child = await owner.spawn("hang")
    await owner.message()
    await child.stop(grace_s=0.05)
    end = await owner.end()
    assert (end.exit_code, end.signal, end.reason) == (None, signal.SIGKILL, "did not stop within 0.05 s")


async def test_a_segmentation_fault_is_told_with_the_stack(owner: Owner) -> None:
    await owner.spawn("segfault")
    end = await owner.end()
    assert (end.signal, end.reason) == (signal.SIGSEGV, "ended by signal 11 (SIGSEGV)")
    assert any("Fatal Python error: Segmentation fault" in line for line in end.last_lines)
    assert any("in segfault" in line for line in end.last_lines)


async def test_a_process_that_uses_too_much_memory_is_killed(owner: Owner) -> None:
    await owner.spawn("leak", memory_bytes=150 * MEBIBYTE)
    end = await owner.end()
    assert end.memory_bytes is not None
    assert end.memory_bytes > 150 * MEBIBYTE
    used_mebibytes = -(-end.memory_bytes // MEBIBYTE)
    assert end.reason == f"used {used_mebibytes} MiB, more than task.memory.max.bytes allows (150 MiB)"


async def test_an_exit_code_and_the_last_lines_are_told(owner: Owner) -> None:
    await owner.spawn("leave")
    end = await owner.end()
    assert (end.exit_code, end.reason) == (EXIT_CODE, f"ended with exit code {EXIT_CODE}")
    assert list(end.last_lines) == ["leaving"]


async def test_an_error_that_nobody_catches_is_in_the_last_lines(owner: Owner) -> None:
    await owner.spawn("raise_error")
    end = await owner.end()
    assert end.exit_code == 1
    assert end.last_lines[-1] == "RuntimeError: nobody catches this"


async def test_a_process_that_somebody_else_killed_is_told(owner: Owner) -> None:
    child = await owner.spawn("be_idle")
    await owner.message()
    os.kill(child.pid, signal.SIGKILL)
    end = await owner.end()
    assert end.signal == signal.SIGKILL
    assert "which this worker did not send" in end.reason


@pytest.mark.parametrize("do", ["send_garbage", "send_too_much"])
async def test_a_process_that_sends_what_is_no_message_is_killed(owner: Owner, do: str) -> None:
    await owner.spawn(do)
    end = await owner.end()
    assert end.reason.startswith("sent what is no message: ")


async def test_what_a_process_said_before_its_end_is_not_lost(owner: Owner) -> None:
    child = await owner.spawn("fail_at_once")
    for until_s in range(1000):  # writing to a process that has ended must not lose what it said
        child.send(Lease(until_s=until_s))
        await asyncio.sleep(0)
    end = await owner.end()
    assert [type(each) for each in owner.messages] == [TopicsUsed, Failed]
    assert end.exit_code == 1


@pytest.mark.parametrize(
    ("do", "reason"),
    [("fail_and_stay", "after it had failed"), ("close_channel", "after it had closed its channel")],
)
async def test_a_process_that_should_have_ended_is_killed(
    owner: Owner, monkeypatch: pytest.MonkeyPatch, do: str, reason: str
) -> None:
    monkeypatch.setattr(child_process, "END_WITHIN_S", 0.1)
    await owner.spawn(do)
    end = await owner.end()
    assert end.reason == f"did not end within 0.1 s {reason}"


async def test_a_process_that_does_not_read_is_killed(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "READ_WITHIN_S", 0.1)
    child = await owner.spawn("read_nothing")
    await owner.message()
    child.send(SetLogLevel(logger="x" * MEBIBYTE, level="DEBUG"))
    end = await owner.end()
    assert end.reason == "has not read messages for 0.1 s"


async def test_a_long_message_reaches_a_process_that_reads_slowly(owner: Owner) -> None:
    child = await owner.spawn("be_idle")
    child.send(SetLogLevel(logger="x" * 8 * MEBIBYTE, level="DEBUG"))
    await child.stop(grace_s=10)
    assert (await owner.end()).reason == "stopped"


async def test_a_flood_of_output_does_not_keep_the_worker_from_its_work(owner: Owner) -> None:
    await owner.spawn("flood")
    await owner.message()
    slowest_s = 0.0
    begun_s = time.monotonic()
    while time.monotonic() < begun_s + 0.3:
        before_s = time.thread_time()  # of processor time, of which other processes take nothing
        await asyncio.sleep(0)
        slowest_s = max(slowest_s, time.thread_time() - before_s)
    await owner.child.stop(grace_s=0)
    await owner.end()
    lines = owner.host.logs.lines("flood", 0, 10_000)
    assert 0 < len(lines) <= 1000
    assert slowest_s < 0.25, "the loop is held up by the output"


async def test_output_is_kept_by_connector_and_task(owner: Owner) -> None:
    child = await owner.spawn("talk", task=3)
    await owner.message()
    await child.stop(grace_s=10)
    await owner.end()
    lines = [line.split(" ", 1)[1] for line in owner.host.logs.lines("talk", 3, 10)]
    assert lines == ["a plain line", "WARNING plugin: careful", "one", "two", "on standard error"]
    assert owner.host.logs.lines("talk", None, 10) == []
    assert len(owner.host.logs.lines("talk", 3, 2)) == 2


async def test_a_very_long_line_is_cut(owner: Owner) -> None:
    child = await owner.spawn("one_long_line")
    await owner.message()
    await child.stop(grace_s=10)
    await owner.end()
    (line,) = owner.host.logs.lines("one_long_line", 0, 10)
    assert line.endswith(" bytes more)")
    assert len(line) < 70_000


async def test_a_process_inherits_nothing_but_its_channel_and_its_output(owner: Owner) -> None:
    other = Owner(owner.host)
    await other.spawn("be_idle")
    await owner.spawn("show_surroundings", task=12)
    said = await owner.message()
    assert isinstance(said, TopicsUsed)
    assert said.topics == ["0 1 2 3", "show_surroundin", "/dev/null", "True", "True"]
    await other.child.stop(grace_s=10)
    await other.end()


async def test_what_a_process_has_started_goes_with_it(owner: Owner) -> None:
    child = await owner.spawn("start_a_program")
    said = await owner.message()
    assert isinstance(said, TopicsUsed)
    program = int(said.topics[0])
    assert not has_ended(program)
    await child.stop(grace_s=10)
    await eventually_async(lambda: has_ended(program), "the program has gone")


async def test_messages_come_only_after_spawn_has_returned(shared_host: ProcessHost) -> None:
    handed_over: list[ChildProcess] = []
    early: list[object] = []
    ends: list[Exit] = []

    def note(happened: FromProcess | Exit) -> None:
        if not handed_over:
            early.append(happened)
        if isinstance(happened, Exit):
            ends.append(happened)

    purpose = RunTask(connector="x", task=0, connector_settings={}, settings={"do": "fail_at_once"}, worker={})
    handed_over.append(await shared_host.spawn(purpose, limits=ProcessLimits(), on_message=note, on_exit=note))
    await eventually_async(lambda: ends, "the process has ended")
    assert not early


async def test_a_spawn_that_is_cancelled_leaves_no_process(shared_host: ProcessHost) -> None:
    before = await files_of_idle(shared_host)
    owner = Owner(shared_host)
    for steps in range(6):
        task = asyncio.create_task(owner.spawn("be_idle"))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result().kill()
    await eventually_async(lambda: open_files() == before, "all is closed")
    assert not children_of(shared_host.launcher_pid)


async def test_a_worker_without_free_descriptors_says_so_and_goes_on(
    shared_host: ProcessHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_descriptors() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    owner, count = Owner(shared_host), shared_host.process_count
    with monkeypatch.context() as patch:
        patch.setattr(os, "pipe", no_descriptors)
        with pytest.raises(ProcessFailed, match="Too many open files"):
            await owner.spawn("be_idle")
    assert shared_host.process_count == count
    await owner.spawn("be_idle")
    await owner.child.stop(5)


async def test_a_question_is_answered(shared_host: ProcessHost) -> None:
    before = await files_of_idle(shared_host)
    answer = await shared_host.ask(ListPlugins(entry_point="good", worker={}), timeout_s=10)
    assert answer == PluginsListed(plugins=[])
    await eventually_async(lambda: open_files() == before, "the process has gone")


@pytest.mark.parametrize(
    ("entry_point", "timeout_s", "reason"),
    [("dies", 10, f"the process ended with exit code {EXIT_CODE}"), ("hangs", 0.2, "no answer within 0.2 s")],
)
async def test_a_question_without_an_answer_fails(
    shared_host: ProcessHost, entry_point: str, timeout_s: float, reason: str
) -> None:
    before = await files_of_idle(shared_host)
    with pytest.raises(ProcessFailed) as failed:
        await shared_host.ask(ListPlugins(entry_point=entry_point, worker={}), timeout_s=timeout_s)
    assert failed.value.reason == reason
    assert list(failed.value.last_lines) == (["about to die"] if entry_point == "dies" else [])
    await eventually_async(lambda: open_files() == before, "the process has gone")


async def test_a_process_that_fails_says_why_there_is_no_answer(shared_host: ProcessHost) -> None:
    with pytest.raises(ProcessFailed, match="there is no such plugin"):
        await shared_host.ask(DescribeConfig(plugin="x", worker={}), timeout_s=10)


async def test_only_so_many_questions_are_asked_at_a_time(shared_host: ProcessHost) -> None:
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, len(children_of(shared_host.launcher_pid)))
            await asyncio.sleep(0.005)  # between two looks; the test cancels them

    watching = asyncio.create_task(watch())
    asked = [shared_host.ask(ListPlugins(entry_point="slow", worker={}), timeout_s=30) for _ in range(2 * ASKS_MAX)]
    assert await asyncio.gather(*asked) == [PluginsListed(plugins=[])] * (2 * ASKS_MAX)
    watching.cancel()
    assert 1 <= most <= ASKS_MAX


async def test_a_launcher_that_dies_is_started_again(shared_host: ProcessHost) -> None:
    before = await files_of_idle(shared_host)
    owners = [Owner(shared_host) for _ in range(3)]
    for task, each in enumerate(owners):
        await each.spawn("be_idle", task=task)
    died = shared_host.launcher_pid
    os.kill(died, signal.SIGKILL)
    for each in owners:
        end = await each.end()
        assert (end.signal, end.reason) == (signal.SIGKILL, "died with the launcher of processes")
    again = Owner(shared_host)
    child = await again.spawn("be_idle")
    await again.message()
    assert shared_host.launcher_pid != died
    assert has_ended(died)
    await child.stop(grace_s=10)
    await again.end()
    await eventually_async(lambda: len(open_files()) == len(before), "all is closed")
    assert not shared_host.failed.done()


async def test_a_launcher_that_cannot_start_says_why() -> None:
    before = open_files()
    host = ProcessHost(entry="tests.support.no_such_module:run")
    with pytest.raises(ProcessFailed, match=r"has died: ModuleNotFoundError: .*no_such_module"):
        await host.start()
    await host.close()
    assert open_files() == before


async def test_a_launcher_that_dies_again_and_again_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "entry_of_once.py").write_text("def run(channel):\n    return 0\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    monkeypatch.setattr("ottla_connect.processes.host.LAUNCHES_MAX", 2)
    host = ProcessHost(entry="entry_of_once:run")
    await host.start()
    (tmp_path / "entry_of_once.py").unlink()
    os.kill(host.launcher_pid, signal.SIGKILL)
    await eventually_async(host.failed.done, "the host has given up")
    with pytest.raises(ProcessFailed, match="no launcher of processes can be kept running"):
        await host.failed
    with pytest.raises(ProcessFailed):
        await Owner(host).spawn("be_idle")
    await host.close()


async def test_closing_stops_what_runs_and_starts_nothing_more() -> None:
    before = open_files()
    host = ProcessHost(entry=ENTRY)
    await host.start()
    owner = Owner(host)
    await owner.spawn("be_idle")
    launcher = host.launcher_pid
    await host.close()
    assert owner.ends[0].reason == "stopped"
    assert has_ended(owner.child.pid)
    assert has_ended(launcher)
    assert open_files() == before
    with pytest.raises(ProcessFailed, match="the worker is stopping"):
        await owner.spawn("be_idle")


async def test_no_process_outlives_a_worker_that_is_killed() -> None:
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.support.connect.process_host_program", "3"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    with worker:
        try:
            assert worker.stdout is not None
            pids = [int(word) for word in worker.stdout.readline().split()]
            assert len(pids) == 4
            assert all(not has_ended(pid) for pid in pids)
        finally:
            worker.kill()
    await eventually_async(lambda: all(has_ended(pid) for pid in pids), "the launcher and its processes have gone")


def children_of(pid: int) -> list[int]:
    """The children of a process, those included that were not reaped."""
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
