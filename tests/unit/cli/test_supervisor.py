"""The supervisor, with real processes that stand in for the services."""

import asyncio
import contextlib
import errno
import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.local import process, supervisor
from ottla.local.health import HttpHealth
from ottla.local.plan import ProcessSpec
from ottla.local.process import ProcessFailed
from ottla.local.restart_policy import RESTARTS_MAX, RestartPolicy
from ottla.local.supervisor import StopRequested, StopSignal, Supervisor
from ottla_operations.local_clusters.cluster_report import ClusterPhase, ProcessReport
from ottla_operations.local_clusters.process_identity import identify, is_alive
from tests.support.eventually import eventually
from tests.support.free_ports import free_port
from tests.support.machine.process_stat import has_ended

pytestmark = pytest.mark.slow  # many real processes or connections

STAND_IN = Path(__file__).with_name("stand_in.py")
DEADLINE_S = 30.0


def stand_in(tmp_path: Path, role: str, number: int = 1, *, habit: str = "", stop_s: float = 20.0) -> ProcessSpec:
    port = free_port()
    return ProcessSpec(
        role=role,
        id=number,
        command=(sys.executable, "-S", str(STAND_IN), str(port), *([habit] if habit else [])),
        host="127.0.0.1",
        port=port,
        health=HttpHealth(f"http://127.0.0.1:{port}/"),
        log=tmp_path / f"{role}-{number}.log",
        stop_s=stop_s,
    )


class Watcher:
    """Keeps what the supervisor publishes."""

    def __init__(self) -> None:
        self.phases: list[ClusterPhase] = []
        self.processes: tuple[ProcessReport, ...] = ()
        self.pids: set[int] = set()
        self.order: list[str] = []
        self.published = 0
        self.refused = 0
        self.refusal: OSError | None = None

    def __call__(self, phase: ClusterPhase, processes: tuple[ProcessReport, ...]) -> None:
        self.pids |= {each.pid for each in processes if each.pid}
        if self.refusal is not None:
            self.refused += 1
            raise self.refusal
        self.published += 1
        if not self.phases or self.phases[-1] != phase:
            self.phases.append(phase)
        self.processes = processes
        self.order += [each.name for each in processes if each.state == "ready" and each.name not in self.order]

    def named(self, name: str) -> ProcessReport:
        return next(each for each in self.processes if each.name == name)

    def nothing_runs(self) -> bool:
        return all(identify(pid) is None for pid in self.pids)


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)  # between two looks; the deadline ends them


@asynccontextmanager
async def running(*stages: list[ProcessSpec]):
    watcher, stop = Watcher(), StopSignal()
    task = asyncio.create_task(Supervisor(stages, watcher).run(stop))
    try:
        await until(lambda: watcher.phases[-1:] == ["running"] or task.done())
        yield watcher, stop, task
        stop.request()
        await task
    finally:
        stop.request()
        stop.request()
        await asyncio.wait({task})
        assert watcher.nothing_runs()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the supervisor writes into its log."""
    messages: list[str] = []

    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    monkeypatch.setattr(supervisor.log, "handlers", [Noting()])
    return messages


def times(said: list[str], words: str) -> int:
    return sum(words in message for message in said)


async def run_to_its_end(*stages: list[ProcessSpec]) -> tuple[Watcher, Awaitable[None]]:
    watcher = Watcher()
    return watcher, Supervisor(stages, watcher).run(StopSignal())


async def test_stages_start_in_order_and_stop_cleanly(tmp_path):
    stages = [[stand_in(tmp_path, "etcd")], [stand_in(tmp_path, "broker", 1), stand_in(tmp_path, "broker", 2)]]
    async with running(*stages) as (watcher, _, _):
        assert watcher.order[0] == "etcd-1"
        assert set(watcher.order) == {"etcd-1", "broker-1", "broker-2"}
        assert all(is_alive(each.identity) for each in watcher.processes)
    assert watcher.phases == ["starting", "running", "stopping", "stopped"]
    assert {each.state for each in watcher.processes} == {"stopped"}
    assert "stand-in says hello" in (tmp_path / "broker-2.log").read_text()


async def test_a_process_that_dies_at_start_is_named_with_its_log_and_nothing_stays(tmp_path):
    stages = [[stand_in(tmp_path, "etcd")], [stand_in(tmp_path, "broker", habit="die-at-start")]]
    watcher, end = await run_to_its_end(*stages)
    with pytest.raises(ProcessFailed) as caught:
        await end
    message = str(caught.value)
    assert message.startswith("broker-1 ended while it was starting (exit code 3); its log is ")
    assert str(tmp_path / "broker-1.log") in message
    assert message.endswith("| cannot go on: the reason")
    assert watcher.nothing_runs()
    assert watcher.phases[-1] == "failed"


async def test_the_message_shows_only_the_last_starts_lines(tmp_path):
    (tmp_path / "broker-1.log").write_text("from an earlier life\n")
    _, end = await run_to_its_end([stand_in(tmp_path, "broker", habit="die-at-start")])
    with pytest.raises(ProcessFailed) as caught:
        await end
    assert "from an earlier life" not in str(caught.value)


async def test_a_process_that_never_gets_ready_is_named_with_its_health(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "START_DEADLINE_S", 0.5)
    watcher, end = await run_to_its_end([stand_in(tmp_path, "broker", habit="never-ready")])
    with pytest.raises(ProcessFailed, match="broker-1 was not ready within"):
        await end
    assert watcher.nothing_runs()


async def test_a_program_that_does_not_exist_is_one_message(tmp_path):
    spec = replace(stand_in(tmp_path, "etcd"), command=("/nowhere/etcd",))
    _, end = await run_to_its_end([spec])
    with pytest.raises(ProcessFailed, match="cannot start /nowhere/etcd: No such file"):
        await end


async def test_an_earlier_stage_that_dies_during_the_start_ends_it(tmp_path):
    stages = [[stand_in(tmp_path, "etcd")], [stand_in(tmp_path, "broker", habit="never-ready")]]
    watcher = Watcher()
    task = asyncio.create_task(Supervisor(stages, watcher).run(StopSignal()))
    await until(lambda: watcher.order == ["etcd-1"])
    os.kill(watcher.named("etcd-1").pid, signal.SIGKILL)
    with pytest.raises(ProcessFailed, match=r"etcd-1 ended while .* was starting \(killed by signal 9\)"):
        await task
    assert watcher.nothing_runs()


async def test_one_that_dies_between_two_stages_ends_the_start_too(tmp_path):
    class Killer(Watcher):
        """Kills the first process as soon as that is ready, before the next stage begins."""

        def __call__(self, phase, processes):
            super().__call__(phase, processes)
            if self.order == ["etcd-1"] and (pid := self.named("etcd-1").pid):
                os.kill(pid, signal.SIGKILL)
                eventually(lambda: has_ended(pid), "it has ended")

    stages = [[stand_in(tmp_path, "etcd")], [stand_in(tmp_path, "broker", habit="never-ready")]]
    watcher = Killer()
    with pytest.raises(ProcessFailed, match=r"etcd-1 ended while .* was starting \(killed by signal 9\)"):
        await Supervisor(stages, watcher).run(StopSignal())
    assert watcher.nothing_runs()


async def test_a_wish_to_stop_during_the_start_leaves_nothing(tmp_path):
    stages = [[stand_in(tmp_path, "etcd")], [stand_in(tmp_path, "broker", habit="never-ready")]]
    watcher, stop = Watcher(), StopSignal()
    task = asyncio.create_task(Supervisor(stages, watcher).run(stop))
    await until(lambda: watcher.order == ["etcd-1"])
    stop.request()
    with pytest.raises(StopRequested):
        await task
    assert watcher.nothing_runs()
    assert watcher.phases[-1] == "stopped"


async def test_a_crashed_process_starts_again_and_the_restart_shows(tmp_path):
    async with running([stand_in(tmp_path, "broker")]) as (watcher, _, _):
        first = watcher.named("broker-1")
        os.kill(first.pid, signal.SIGKILL)
        await until(lambda: watcher.named("broker-1").restarts == 1 and watcher.named("broker-1").state == "ready")
        assert watcher.named("broker-1").pid != first.pid
        assert watcher.phases[-1] == "running"


async def test_a_process_that_crashes_again_and_again_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(RestartPolicy, "delay_after_crash_s", quickly(RestartPolicy.delay_after_crash_s))
    marker = tmp_path / "stand-in cannot start any more"
    spec = stand_in(tmp_path, "broker", 2)
    crashing = replace(spec, command=("/bin/sh", "-c", f"test ! -e '{marker}' && exec \"$@\"", "sh", *spec.command))
    async with running([stand_in(tmp_path, "broker", 1), crashing]) as (watcher, _, task):
        marker.touch()
        os.kill(watcher.named("broker-2").pid, signal.SIGKILL)
        await until(lambda: watcher.named("broker-2").state == "failed")
        assert watcher.named("broker-2").restarts == RESTARTS_MAX
        assert watcher.named("broker-1").state == "ready"
        assert not task.done()


async def test_a_start_that_the_system_refuses_is_said_once_and_tried_until_it_works(tmp_path, monkeypatch, said):
    monkeypatch.setattr(supervisor, "REFUSED_RETRY_S", 0.01)
    async with running([stand_in(tmp_path, "broker")]) as (watcher, _, task):
        log = tmp_path / "broker-1.log"
        log.rename(tmp_path / "broker-1.log.former")
        log.mkdir()  # a log that cannot be opened, as on a disk without room for another file
        os.kill(watcher.named("broker-1").pid, signal.SIGKILL)
        await until(lambda: times(said, "broker-1 cannot be started; trying again until it can: "))
        refusals = watcher.published
        await until(lambda: watcher.published > refusals + 2 * RESTARTS_MAX)
        assert not task.done()
        log.rmdir()
        await until(lambda: watcher.named("broker-1").state == "ready")
        assert watcher.named("broker-1").restarts == 1
    assert times(said, "cannot be started") == 1


async def test_a_first_start_that_the_system_refuses_is_one_message(tmp_path):
    (tmp_path / "broker-1.log").mkdir()
    _, end = await run_to_its_end([stand_in(tmp_path, "broker")])
    with pytest.raises(ProcessFailed, match=r"broker-1 cannot be started: .*Is a directory"):
        await end


async def test_a_report_that_cannot_be_written_is_said_once_and_tried_again(tmp_path, monkeypatch, said):
    monkeypatch.setattr(supervisor, "REFUSED_RETRY_S", 0.01)
    async with running([stand_in(tmp_path, "broker")]) as (watcher, _, task):
        watcher.refusal = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        former = watcher.named("broker-1").pid
        os.kill(former, signal.SIGKILL)
        await until(lambda: watcher.refused > 10)
        assert not task.done()
        watcher.refusal = None
        await until(lambda: watcher.named("broker-1").state == "ready" and watcher.named("broker-1").pid != former)
    assert times(said, "state cannot be written down") == 1
    assert times(said, "No space left on device") == 1


def test_the_supervisors_own_log_on_a_full_disk_is_silent(capsys, monkeypatch):
    monkeypatch.setattr(supervisor.log, "handlers", [])
    supervisor.log_to(Path("/dev/full"), also_to=None)
    supervisor.log.warning("nobody can read this")
    assert capsys.readouterr().err == ""
    for handler in supervisor.log.handlers:
        with contextlib.suppress(OSError):
            handler.close()


async def test_a_cluster_without_its_last_process_of_a_role_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(RestartPolicy, "delay_after_crash_s", lambda *_: None)
    watcher = Watcher()
    stages = [[stand_in(tmp_path, "etcd")], [stand_in(tmp_path, "broker")]]
    task = asyncio.create_task(Supervisor(stages, watcher).run(StopSignal()))
    await until(lambda: watcher.phases[-1:] == ["running"])
    os.kill(watcher.named("etcd-1").pid, signal.SIGKILL)
    with pytest.raises(ProcessFailed, match="etcd-1 ended more than"):
        await task
    assert watcher.nothing_runs()
    assert watcher.named("etcd-1").state == "failed"


async def test_a_cluster_goes_on_without_a_member_of_etcd_but_not_without_its_majority(tmp_path, monkeypatch):
    monkeypatch.setattr(RestartPolicy, "delay_after_crash_s", lambda *_: None)
    watcher = Watcher()
    members = [stand_in(tmp_path, "etcd", number) for number in (1, 2, 3)]
    task = asyncio.create_task(Supervisor([members, [stand_in(tmp_path, "broker")]], watcher).run(StopSignal()))
    await until(lambda: watcher.phases[-1:] == ["running"])
    os.kill(watcher.named("etcd-2").pid, signal.SIGKILL)
    await until(lambda: watcher.named("etcd-2").state == "failed")
    assert watcher.phases[-1] == "running"
    os.kill(watcher.named("etcd-3").pid, signal.SIGKILL)
    with pytest.raises(ProcessFailed, match="etcd-3 ended more than"):
        await task
    assert watcher.nothing_runs()


async def test_a_cluster_goes_on_without_its_last_connect_worker(tmp_path, monkeypatch):
    monkeypatch.setattr(RestartPolicy, "delay_after_crash_s", lambda *_: None)
    async with running([stand_in(tmp_path, "broker")], [stand_in(tmp_path, "connect")]) as (watcher, _, _):
        os.kill(watcher.named("connect-1").pid, signal.SIGKILL)
        await until(lambda: watcher.named("connect-1").state == "failed")
        assert watcher.phases[-1] == "running"
    assert watcher.phases[-1] == "stopped"


async def test_a_process_that_ignores_the_request_to_stop_is_killed(tmp_path):
    async with running([stand_in(tmp_path, "broker", habit="stubborn", stop_s=0.3)]) as (watcher, _, _):
        pass
    assert watcher.named("broker-1").state == "stopped"


async def test_a_second_request_to_stop_does_not_wait(tmp_path):
    async with running([stand_in(tmp_path, "broker", habit="stubborn", stop_s=3600)]) as (_, stop, _):
        stop.request()
        stop.request()


def test_nothing_outlives_a_supervisor_that_is_killed(tmp_path):
    program = textwrap.dedent(
        f"""
        import asyncio, pathlib, sys
        sys.path.insert(0, {str(Path(__file__).parents[3])!r})
        from ottla.local.supervisor import StopSignal, Supervisor
        from importlib.util import module_from_spec, spec_from_file_location
        spec = spec_from_file_location("tests_of_it", {__file__!r})
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        def publish(phase, processes):
            if phase == "running":
                print(*[each.pid for each in processes], flush=True)
        stages = [[module.stand_in(pathlib.Path({str(tmp_path)!r}), "broker", habit="stubborn")]]
        asyncio.run(Supervisor(stages, publish).run(StopSignal()))
        """
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert [identify(pid) is not None for pid in pids] == [True]
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    eventually(lambda: all(identify(pid) is None for pid in pids), "its child has gone with it")


def quickly(decide: Callable[..., float | None]) -> Callable[..., float | None]:
    def decide_quickly(*arguments: object) -> float | None:
        return None if decide(*arguments) is None else 0.0

    return decide_quickly
