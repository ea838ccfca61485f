"""Forking services from a launcher, with a stand-in for the services."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ottla.local import service_launcher
from ottla.local.service_launcher import LaunchedProcess, ServiceLauncher
from ottla.local.service_process import ServiceStart
from ottla_operations.local_clusters.process_identity import identify
from tests.support.clusters.launched_service import EXIT_FAILED

pytestmark = pytest.mark.slow  # real processes, which import all services

REPOSITORY = Path(__file__).parents[3]
DEADLINE_S = 60.0


@asynccontextmanager
async def launching(tmp_path: Path) -> AsyncIterator[ServiceLauncher]:
    launcher = ServiceLauncher(tmp_path / "launcher.log")
    try:
        yield launcher
    finally:
        await launcher.close()


@pytest.fixture(autouse=True)
def _stand_in_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("HIDDEN", "not to be seen")


async def start(launcher: ServiceLauncher, log: Path, what: str = "wait") -> LaunchedProcess:
    command = (sys.executable, "-m", "stand_in", what)
    wanted = ServiceStart("tests.support.clusters.launched_service", command, {"GIVEN": "yes"}, ["HIDDEN"])
    with log.open("ab") as output:
        return await asyncio.wait_for(launcher.start(wanted, output.fileno()), DEADLINE_S)


async def end(process: LaunchedProcess) -> int:
    return await asyncio.wait_for(process.wait(), DEADLINE_S)


async def test_a_service_has_its_own_arguments_variables_title_session_and_log(tmp_path):
    log = tmp_path / "service.log"
    async with launching(tmp_path) as launcher:
        process = await start(launcher, log)
        assert await process.wait_ready(DEADLINE_S)
        assert process.returncode is None
        process.terminate()
        assert await end(process) == 0
    assert json.loads(log.read_text()) == {
        "arguments": ["stand_in", "wait"],
        "cmdline": f"{sys.executable} -m stand_in wait",
        "variables": {"GIVEN": "yes", "HIDDEN": None},
        "session": True,
    }


async def test_exit_codes_signals_and_exceptions_are_told(tmp_path):
    log = tmp_path / "service.log"
    async with launching(tmp_path) as launcher:
        failing, raising, killed = [await start(launcher, log, what) for what in ("fail", "raise", "wait")]
        assert await end(failing) == EXIT_FAILED
        assert await end(raising) == 1
        killed.kill()
        assert await end(killed) == -signal.SIGKILL
    assert "RuntimeError: the reason" in log.read_text()


async def test_a_service_that_says_nothing_or_ends_does_not_become_ready(tmp_path):
    async with launching(tmp_path) as launcher:
        silent = await start(launcher, tmp_path / "service.log", "silent")
        assert not await silent.wait_ready(0.1)
        failing = await start(launcher, tmp_path / "service.log", "fail")
        assert not await failing.wait_ready(DEADLINE_S)


async def test_services_end_with_their_launcher_and_the_next_start_makes_another(tmp_path):
    async with launching(tmp_path) as launcher:
        process = await start(launcher, tmp_path / "service.log")
        parent = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(parent, signal.SIGKILL)
        assert await end(process) == -signal.SIGKILL
        assert identify(process.pid) is None
        another = await start(launcher, tmp_path / "service.log")
        assert await another.wait_ready(DEADLINE_S)
    assert identify(another.pid) is None


async def test_a_launcher_that_cannot_import_the_services_is_an_error_of_the_start(tmp_path, monkeypatch):
    monkeypatch.setattr(service_launcher, "PREPARE", "no.such.module:prepare")
    async with launching(tmp_path) as launcher:
        with pytest.raises(OSError, match="launcher of services has ended"):
            await start(launcher, tmp_path / "service.log")
    assert "No module named 'no'" in (tmp_path / "launcher.log").read_text()
