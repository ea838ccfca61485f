"""Requests that change a connector at the same time come out as if they had come one after the other."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla_connect.connector_states import State, TargetState
from ottla_connect.group.work import NO_WORK
from ottla_connect.herder.task_config_publisher import TaskSettings
from ottla_connect.herder.unit import Unit
from ottla_connect.processes.messages import OffsetsChecked, TaskConfigs
from ottla_connect.state.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    TargetStateRecord,
    Write,
    decode,
)
from ottla_connect.state.keyed_log import NotInTime
from ottla_core.clock import boot_time_s
from ottla_core.rest.errors import BadRequest, Conflict, Elsewhere, NotFound, RequestError
from tests.support.connect.herder_parts import HerderParts
from tests.support.connect.scripted_connectors import CLASS
from tests.support.eventually_async import eventually_async

pytestmark = pytest.mark.asyncio(loop_scope="module")

BASE = {"connector.class": CLASS, "tasks.max": "1"}
RUNNING, STOPPED = State.RUNNING, State.STOPPED


@pytest.fixture
def slow_log(parts: HerderParts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration takes its time to be written, as a topic's does."""
    delay(parts.stores.config._log, monkeypatch, lambda: 0.05)


def delay(records: object, monkeypatch: pytest.MonkeyPatch, seconds: Callable[[], float]) -> None:
    write = records.write  # type: ignore[attr-defined]

    async def write_later(writes: Sequence[Write], timeout_s: float) -> None:
        await asyncio.sleep(seconds())  # how slow the topic is
        await write(writes, timeout_s)

    monkeypatch.setattr(records, "write", write_later)


@pytest.mark.usefixtures("slow_log")
async def test_two_patches_of_different_keys_are_both_kept(parts: HerderParts):
    await parts.create("flights", tasks_max="1")
    await asyncio.gather(
        parts.herder.patch_connector_config("flights", {"one": "1"}),
        parts.herder.patch_connector_config("flights", {"two": "2"}),
    )
    config = parts.herder.connector_info("flights").config
    assert (config.get("one"), config.get("two")) == ("1", "2")


@pytest.mark.usefixtures("slow_log")
async def test_a_patch_does_not_bring_a_deleted_connector_back(parts: HerderParts):
    await parts.create("flights", tasks_max="1")
    patching = asyncio.create_task(parts.herder.patch_connector_config("flights", {"one": "1"}))
    await asyncio.sleep(0)  # it has read what it is to change
    await parts.herder.delete_connector("flights")
    with pytest.raises(NotFound):
        await patching
    assert parts.herder.connectors() == []


@pytest.mark.usefixtures("slow_log")
async def test_a_put_that_comes_after_a_deletion_says_that_the_connector_is_new(parts: HerderParts):
    await parts.create("flights", tasks_max="1")
    putting = asyncio.create_task(parts.herder.put_connector_config("flights", BASE))
    await asyncio.sleep(0)
    await parts.herder.delete_connector("flights")
    is_new, _ = await putting
    assert is_new
    assert parts.herder.connectors() == ["flights"]


async def test_offsets_that_are_reset_stay_reset_though_a_task_was_still_stopping(parts: HerderParts, tmp_path: Path):
    release = tmp_path / "release"
    await parts.create("flights", tasks_max="1", behaviour="commit-late", release=str(release))
    await parts.reach("flights", RUNNING, RUNNING)
    await parts.stores.offsets.write("flights", [({"file": "a"}, {"position": 3})])
    await parts.herder.set_target_state("flights", TargetState.STOPPED)
    resetting = asyncio.create_task(parts.herder.reset_offsets("flights"))
    await asyncio.wait({resetting}, timeout=0.5)  # it must not come to its end by itself
    release.touch()
    await resetting
    await eventually_async(lambda: not parts.pids(), "all tasks have ended")
    assert await parts.herder.offsets("flights") == []


async def test_a_commit_that_is_still_being_stored_counts_as_a_task_that_runs(
    parts: HerderParts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    release, stored = tmp_path / "release", asyncio.Event()
    await parts.create("flights", tasks_max="1", behaviour="commit-late", release=str(release))
    await parts.reach("flights", RUNNING, RUNNING)
    write = parts.stores.offsets.write

    async def write_late(connector: str, pairs: Sequence[tuple[Mapping, Mapping]]) -> None:
        if pairs[0][1] == {"position": 7}:
            await stored.wait()
        await write(connector, pairs)

    monkeypatch.setattr(parts.stores.offsets, "write", write_late)
    await parts.herder.set_target_state("flights", TargetState.STOPPED)
    release.touch()
    await eventually_async(lambda: not parts.pids(), "all tasks have ended")
    altering = asyncio.create_task(parts.herder.alter_offsets("flights", [({"file": "a"}, {"position": 1})]))
    await asyncio.wait({altering}, timeout=0.5)
    is_early = altering.done()
    stored.set()
    await altering
    assert not is_early
    assert await parts.herder.offsets("flights") == [({"file": "a"}, {"position": 1})]


async def test_a_worker_that_is_replaced_joins_anew_when_its_commits_are_stored(
    parts: HerderParts, monkeypatch: pytest.MonkeyPatch
):
    begun, stored = asyncio.Event(), asyncio.Event()
    write = parts.stores.offsets.write

    async def write_late(connector: str, pairs: Sequence[tuple[Mapping, Mapping]]) -> None:
        begun.set()
        await stored.wait()
        await write(connector, pairs)

    monkeypatch.setattr(parts.stores.offsets, "write", write_late)
    await parts.create("flights", tasks_max="1", behaviour="commit")
    await begun.wait()
    losing = asyncio.create_task(parts.herder.on_lost())
    await asyncio.wait({losing}, timeout=0.5)
    is_early = losing.done()
    stored.set()
    await losing
    assert not is_early


async def test_a_connector_is_not_resumed_while_its_offsets_change(
    parts: HerderParts, monkeypatch: pytest.MonkeyPatch
):
    await parts.herder.create_connector("flights", BASE, TargetState.STOPPED)
    begun, stored = asyncio.Event(), asyncio.Event()
    write = parts.stores.offsets.write

    async def write_late(connector: str, pairs: Sequence[tuple[Mapping, Mapping]]) -> None:
        begun.set()
        await stored.wait()
        await write(connector, pairs)

    monkeypatch.setattr(parts.stores.offsets, "write", write_late)
    altering = asyncio.create_task(parts.herder.alter_offsets("flights", [({"file": "a"}, {"position": 1})]))
    await begun.wait()
    resuming = asyncio.create_task(parts.herder.set_target_state("flights", TargetState.STARTED))
    await asyncio.wait({resuming}, timeout=0.3)
    meanwhile = parts.stores.config.state.target_states["flights"]
    stored.set()
    await asyncio.gather(altering, resuming)
    assert meanwhile is TargetState.STOPPED
    await parts.reach("flights", RUNNING, RUNNING)


@pytest.mark.parametrize("left_s", [-1.0, 4.0])
async def test_a_leader_whose_lease_may_lapse_before_its_write_ends_changes_nothing(
    parts: HerderParts, left_s: float
):
    await parts.create("flights", tasks_max="1")
    parts.worker.extend_lease(boot_time_s() + left_s)
    for request in (
        parts.herder.put_connector_config("flights", {**BASE, "one": "1"}),
        parts.herder.patch_connector_config("flights", {"one": "1"}),
        parts.herder.delete_connector("flights"),
        parts.herder.set_target_state("flights", TargetState.PAUSED),
    ):
        with pytest.raises(Conflict, match="not in the group"):
            await request
    assert "one" not in parts.herder.connector_info("flights").config


async def test_settings_of_tasks_that_were_overtaken_on_their_way_are_put_right(parts: HerderParts):
    await parts.create("flights", tasks_max="2")
    await parts.reach("flights", RUNNING, RUNNING, RUNNING)
    wanted = parts.herder.task_configs("flights")
    await parts.herder.put_task_configs("flights", [{"behaviour": "run", "number": "stale"}])
    await eventually_async(lambda: parts.herder.task_configs("flights") == wanted, "they are as the connector says")
    await parts.reach("flights", RUNNING, RUNNING, RUNNING)


class Observed:
    """Checks every record of the configuration as it is written, and every change of offsets by a request."""

    def __init__(self, parts: HerderParts, monkeypatch: pytest.MonkeyPatch, chance: random.Random) -> None:
        self.parts = parts
        self.records: list[ConfigRecord] = []
        self.problems: list[str] = []
        records = parts.stores.config._log
        write, write_offsets = records.write, parts.stores.offsets.write

        async def checked(writes: Sequence[Write], timeout_s: float) -> None:
            if parts.member.assignment is None or not parts.member.assignment.is_leader:
                self.problems.append(f"a worker that does not lead writes {writes}")
            await asyncio.sleep(chance.random() * 0.01)  # how slow the topic is, by the seed
            self.records += [record for each in writes if (record := decode(each.key, each.value)) is not None]
            await write(writes, timeout_s)

        async def checked_offsets(connector: str, pairs: Sequence[tuple[Mapping, Mapping | None]]) -> None:
            self.check_stopped(connector)
            await asyncio.sleep(chance.random() * 0.02)  # how slow the topic is, by the seed
            self.check_stopped(connector)
            await write_offsets(connector, pairs)

        monkeypatch.setattr(records, "write", checked)
        monkeypatch.setattr(parts.stores.offsets, "write", checked_offsets)

    def check_stopped(self, name: str) -> None:
        state = self.parts.stores.config.state
        if state.target_states.get(name) is not TargetState.STOPPED or state.task_counts.get(name):
            self.problems.append(f"offsets change while {name} is {state.target_states.get(name)}")
        if running := [unit.id for unit in self.parts.worker.units() if unit.is_task and unit.pid]:
            self.problems.append(f"offsets change while {running} have processes")

    def check(self) -> None:
        """Every configuration is the one before it with one change, by a request that was carried out once."""
        config: Mapping[str, str] | None = None
        target, tasks, carried_out = TargetState.STARTED, 0, set[str]()
        for record in self.records:
            match record:
                case ConnectorRecord():
                    self.check_step(config, record.config, carried_out)
                    config, tasks = record.config, tasks if record.config is not None else 0
                case TargetStateRecord():
                    target = record.state or TargetState.STARTED
                case CommitRecord():
                    tasks = record.tasks
            if config is not None and target is TargetState.STOPPED and tasks:
                self.problems.append(f"a stopped connector has {tasks} tasks after {record}")

    def check_step(self, before: Mapping[str, str] | None, after: Mapping[str, str] | None, done: set[str]) -> None:
        if after is None:
            if before is None:
                self.problems.append("what is not there was deleted")
            return
        if (put := after["put"]) not in done:
            done.add(put)
            if before is not None and put.startswith("create"):
                self.problems.append("what is there was created")
            if any(key.startswith("patch") for key in after):
                self.problems.append(f"{put} has patches: {after}")
            return
        new = {key for key in after if key not in (before or {})}
        if before is None or len(new) != 1 or {**before, **dict.fromkeys(new, "1")} != after or new & done:
            self.problems.append(f"{before} became {after}")
        done |= new


@asynccontextmanager
async def leadership_comes_and_goes(parts: HerderParts, chance: random.Random) -> AsyncIterator[None]:
    async def flap() -> None:
        while True:
            await asyncio.sleep(chance.random() * 0.2)  # leadership changes at any moment, by the seed
            led = parts.member.assignment
            assert led is not None
            parts.member.assignment = replace(led, is_leader=not led.is_leader, leader_url="http://127.0.0.1:1")

    flapping = asyncio.create_task(flap())
    try:
        yield
    finally:
        flapping.cancel()
        await asyncio.gather(flapping, return_exceptions=True)
        assert parts.member.assignment is not None
        parts.member.assignment = replace(parts.member.assignment, is_leader=True)


@pytest.mark.parametrize("flaps", [False, True])
@pytest.mark.parametrize("seed", range(4))
async def test_requests_in_any_order_come_out_as_one_after_the_other(
    parts: HerderParts, monkeypatch: pytest.MonkeyPatch, seed: int, flaps: bool
):
    chance = random.Random(seed)
    observed = Observed(parts, monkeypatch, chance)
    herder = parts.herder

    def requests(number: int) -> list[Callable[[], Awaitable[object]]]:
        target = chance.choice(list(TargetState))
        return [
            lambda: herder.create_connector("c", {**BASE, "put": f"create-{number}"}, target),
            lambda: herder.put_connector_config("c", {**BASE, "put": f"put-{number}"}),
            lambda: herder.patch_connector_config("c", {f"patch-{number}": "1"}),
            lambda: herder.patch_connector_config("c", {f"patch-{number}": "1"}),
            lambda: herder.delete_connector("c"),
            lambda: herder.set_target_state("c", target),
            lambda: herder.set_target_state("c", TargetState.STOPPED),
            lambda: herder.put_task_configs("c", [{"behaviour": "run"}] * 2),
            lambda: herder.restart_connector("c", include_tasks=True, only_failed=False),
            lambda: herder.alter_offsets("c", [({"file": "a"}, {"position": number})]),
            lambda: herder.reset_offsets("c"),
        ]

    done: list[str] = []

    async def ask(number: int) -> None:
        await asyncio.sleep(chance.random())  # requests come at any moment, by the seed
        try:
            await chance.choice(requests(number))()
        except (NotFound, Conflict, BadRequest, Elsewhere) as refused:
            done.append(type(refused).__name__)
        except RequestError as failed:
            observed.problems.append(failed.message)
        else:
            done.append("done")

    await herder.put_connector_config("c", {**BASE, "put": "first"})
    async with asyncio.timeout(120):
        if flaps:
            async with leadership_comes_and_goes(parts, chance):
                await asyncio.gather(*map(ask, range(30)))
        else:
            await asyncio.gather(*map(ask, range(30)))
    observed.check()
    assert not observed.problems
    assert flaps or "done" in done


async def test_the_end_of_a_deleted_connector_does_not_give_up_the_tasks_of_its_successor(
    parts: HerderParts, monkeypatch: pytest.MonkeyPatch
):
    await parts.create("flights", tasks_max="1")
    await parts.reach("flights", RUNNING, RUNNING)
    has_closed, may_go_on, publishing, may_store = (asyncio.Event() for _ in range(4))
    close, store = Unit.close, parts.worker._publisher._store

    async def close_late(unit: Unit) -> None:
        await close(unit)
        if not unit.is_task:
            has_closed.set()
            await may_go_on.wait()

    async def store_late(name: str, configs: TaskSettings, is_wanted: Callable[[], bool]) -> None:
        publishing.set()
        await may_store.wait()
        await store(name, configs, is_wanted)

    monkeypatch.setattr(Unit, "close", close_late)
    monkeypatch.setattr(parts.worker._publisher, "_store", store_late)
    await parts.herder.delete_connector("flights")
    await has_closed.wait()
    await parts.create("flights", tasks_max="1")
    await publishing.wait()
    may_go_on.set()
    await eventually_async(lambda: not parts.worker._jobs, "the former connector is forgotten")
    may_store.set()
    await parts.reach("flights", RUNNING, RUNNING)


async def test_a_leader_reads_what_the_one_before_it_wrote_last(parts: HerderParts, monkeypatch: pytest.MonkeyPatch):
    await parts.create("flights", tasks_max="1")
    refresh = parts.stores.config.refresh
    unread = [{**parts.herder.connector_info("flights").config, "theirs": "1"}]

    async def read_late(timeout_s: float) -> None:
        if unread:
            await parts.stores.config.put_connector("flights", unread.pop(), None)
        await refresh(timeout_s)

    monkeypatch.setattr(parts.stores.config, "refresh", read_late)
    info = await parts.herder.patch_connector_config("flights", {"ours": "1"})
    assert (info.config.get("theirs"), info.config.get("ours")) == ("1", "1")


async def test_an_assignment_from_before_the_stop_does_not_show_that_tasks_have_ended(parts: HerderParts):
    await parts.create("flights", tasks_max="1")
    await parts.reach("flights", RUNNING, RUNNING)
    await parts.herder.set_target_state("flights", TargetState.STOPPED)
    await parts.reach("flights", STOPPED)
    await parts.herder.reset_offsets("flights")  # all has settled
    settled = parts.member.assignment
    assert settled is not None
    parts.member.assignment = replace(settled, config_offset=0)
    resetting = asyncio.create_task(parts.herder.reset_offsets("flights"))
    await asyncio.wait({resetting}, timeout=0.5)
    is_early = resetting.done()
    parts.member.assignment = settled
    await parts.herder.on_assigned(settled, NO_WORK)
    await resetting
    assert not is_early


async def test_a_reset_removes_only_what_the_connector_was_asked_about(
    parts: HerderParts, monkeypatch: pytest.MonkeyPatch
):
    await parts.herder.create_connector("flights", BASE, TargetState.STOPPED)
    write, asked = parts.stores.offsets.write, []
    await write("flights", [({"file": "a"}, {"position": 1})])

    async def consent(_: str, __: Mapping[str, str], offsets: list[Any], *, removes_all: bool) -> OffsetsChecked:
        asked.append([partition["file"] for partition, _ in offsets])
        await write("flights", [({"file": "b"}, {"position": 1})])
        assert removes_all
        return OffsetsChecked(problems=[], offsets=offsets)

    monkeypatch.setattr(parts.herder._validation, "check_offsets", consent)
    await parts.herder.reset_offsets("flights")
    assert asked == [["a"], ["a", "b"]]
    assert await parts.herder.offsets("flights") == []


async def test_a_worker_that_leads_no_more_stops_in_the_middle(parts: HerderParts, monkeypatch: pytest.MonkeyPatch):
    await parts.create("flights", tasks_max="1")
    await parts.reach("flights", RUNNING, RUNNING)
    led, store = parts.member.assignment, parts.stores.config.put_task_configs
    assert led is not None

    async def store_and_lose(name: str, configs: TaskSettings, **options: Callable[[], object]) -> None:
        await store(name, configs, **options)
        parts.member.assignment = replace(led, is_leader=False, leader_url="http://127.0.0.1:1")

    monkeypatch.setattr(parts.stores.config, "put_task_configs", store_and_lose)
    with pytest.raises(Elsewhere):
        await parts.herder.set_target_state("flights", TargetState.STOPPED)
    assert parts.stores.config.state.target_states["flights"] is TargetState.STARTED


async def test_settings_of_tasks_that_a_connector_says_again_while_they_wait_are_stored(
    parts: HerderParts, monkeypatch: pytest.MonkeyPatch
):
    store, tried = parts.worker._publisher._store, asyncio.Event()

    async def refuse(name: str, configs: TaskSettings, is_wanted: Callable[[], bool]) -> None:
        tried.set()
        raise Conflict("nobody leads")

    monkeypatch.setattr(parts.worker._publisher, "_store", refuse)
    await parts.create("flights", tasks_max="1")
    await tried.wait()
    (unit,) = parts.worker.units()
    assert unit.task_configs is not None
    parts.worker.on_message(unit, TaskConfigs(configs=[dict(each) for each in unit.task_configs]))
    monkeypatch.setattr(parts.worker._publisher, "_store", store)
    await parts.reach("flights", RUNNING, RUNNING)


async def test_settings_of_tasks_that_are_not_wanted_when_their_turn_comes_are_not_stored(parts: HerderParts):
    await parts.create("flights", tasks_max="1")
    await parts.reach("flights", RUNNING, RUNNING)
    wanted = True

    def is_wanted() -> bool:
        return wanted

    async with parts.herder._changes._leading("flights"):
        storing = asyncio.create_task(parts.herder.put_task_configs("flights", [{"old": "1"}], is_wanted))
        await asyncio.sleep(0)
        wanted = False
    with pytest.raises(Conflict, match="does not want"):
        await storing
    assert {"old": "1"} not in parts.herder.task_configs("flights").values()


async def test_a_write_that_took_too_long_is_repeated_while_the_worker_leads(
    parts: HerderParts, monkeypatch: pytest.MonkeyPatch
):
    write, tries = parts.stores.config._log.write, []

    async def write_late(writes: Sequence[Write], timeout_s: float) -> None:
        tries.append(writes)
        if len(tries) == 1:
            raise NotInTime("it took too long")
        await write(writes, timeout_s)

    monkeypatch.setattr(parts.stores.config._log, "write", write_late)
    await parts.create("flights", tasks_max="1")
    assert parts.herder.connectors() == ["flights"]
    assert tries[0] == tries[1]


async def test_a_worker_that_has_stopped_changes_nothing_any_more(parts: HerderParts):
    await parts.create("flights", tasks_max="1")
    await parts.herder.close()
    with pytest.raises(Conflict):
        await parts.herder.patch_connector_config("flights", {"one": "1"})
