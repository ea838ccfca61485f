"""A worker has offsets in a target changed only as long as it leads, and waits for the end of who does it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ottla_connect.config import WorkerConfig
from ottla_connect.herder.api import ConnectorInfo, ConnectorType
from ottla_connect.herder.herder import WorkerHerder
from ottla_connect.herder.offset_requests import OffsetRequest, OffsetRequests
from ottla_connect.herder.plugin_catalog import PluginCatalog
from ottla_connect.herder.validation import Validation
from ottla_connect.processes.host import ProcessHost
from ottla_connect.state.stores import open_standalone
from ottla_core.clock import boot_time_s
from ottla_core.rest.errors import Conflict
from tests.support.connect.herder_parts import SETTINGS, HerderParts
from tests.support.eventually_async import eventually_async

pytestmark = pytest.mark.asyncio(loop_scope="module")

LEASE_S = 10.0
LEASES = 3


class Change:
    """A request about a sink, whose process tells its leases and never answers; permitted as long as `leads`."""

    def __init__(self, host: ProcessHost, directory: Path) -> None:
        config = WorkerConfig.parse(
            {**SETTINGS, "offset.storage.file.filename": str(directory / "offsets"), "bootstrap.servers": "none:1"}
        )
        self.leads = True
        self.requests = OffsetRequests(
            config,
            stores=open_standalone(config),
            validation=Validation(host, PluginCatalog(host, config.raw), config.raw),
            leased_until_s=lambda: boot_time_s() + LEASE_S,
        )
        self._told = directory / "told"
        self.answer = asyncio.create_task(self.requests.carry_out(sink_request(self._told), self._permit))

    def _permit(self) -> None:
        if not self.leads:
            raise Conflict("another worker leads")

    async def has_begun(self) -> int:
        """Returns the process's id when it has had a few leases."""
        return await has_begun(self._told)

    def leases(self) -> list[float]:
        return [float(line) for line in lines(self._told)[1:]]


def sink_request(told: Path) -> OffsetRequest:
    sink = ConnectorInfo(name="sink", config={"told": str(told)}, tasks=[], type=ConnectorType.SINK)
    return OffsetRequest(connector=sink, offsets=[], removed=[])


def lines(told: Path) -> list[str]:
    return told.read_text().splitlines() if told.exists() else []


async def has_begun(told: Path) -> int:
    await eventually_async(lambda: len(lines(told)) > LEASES, "the process has leases")
    return int(lines(told)[0])


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_leases_go_on_while_the_worker_leads_and_the_process_has_ended_when_the_request_is_refused(
    host: ProcessHost, tmp_path: Path
):
    change = Change(host, tmp_path)
    pid = await change.has_begun()
    leases = change.leases()
    assert leases == sorted(set(leases))
    assert lives(pid)
    change.leads = False
    with pytest.raises(Conflict):
        await change.answer
    assert not lives(pid)


async def test_a_worker_that_leaves_the_group_ends_the_process_first(host: ProcessHost, tmp_path: Path):
    change = Change(host, tmp_path)
    pid = await change.has_begun()
    await change.requests.end_changes()
    assert not lives(pid)
    with pytest.raises(Conflict):
        await change.answer


async def test_who_asks_and_goes_away_leaves_no_process(host: ProcessHost, tmp_path: Path):
    change = Change(host, tmp_path)
    pid = await change.has_begun()
    change.answer.cancel()
    await asyncio.wait({change.answer})
    assert not lives(pid)


async def test_a_worker_that_leads_no_more_when_the_process_has_started_gives_no_lease(
    host: ProcessHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    change = Change(host, tmp_path)
    spawn, sent = host._spawn, []

    async def lose_the_lead(*arguments, **options):
        child = await spawn(*arguments, **options)
        monkeypatch.setattr(child, "send", sent.append)
        change.leads = False
        return child

    monkeypatch.setattr(host, "_spawn", lose_the_lead)
    with pytest.raises(Conflict):
        await change.answer
    assert sent == []
    assert host.process_count == 0


@pytest.mark.parametrize("leave", [WorkerHerder.on_lost, WorkerHerder.close])
async def test_a_herder_that_is_out_of_the_group_has_ended_the_process(
    parts: HerderParts, tmp_path: Path, leave: Callable[[WorkerHerder], Awaitable[None]]
):
    told = tmp_path / "told"
    carrying_out = asyncio.create_task(parts.herder._offsets.carry_out(sink_request(told), parts.herder._lead))
    pid = await has_begun(told)
    await leave(parts.herder)
    assert not lives(pid)
    with pytest.raises(Conflict):
        await carrying_out
