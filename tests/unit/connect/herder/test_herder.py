"""A herder over real processes that follow a script."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from ottla_connect.connector_states import State, Status, TargetState
from ottla_connect.herder.api import ConnectorType
from ottla_connect.ids import TaskId
from ottla_connect.processes.messages import Progressed
from ottla_connect.state.config_records import ConnectorRecord, Write
from ottla_connect.state.config_state import ConnectorChanged, ConnectorRemoved
from ottla_core.clock import boot_time_s
from ottla_core.rest.errors import BadRequest, Conflict, Elsewhere, NotFound
from tests.support.connect.herder_parts import HerderParts as Parts
from tests.support.connect.scripted_connectors import CLASS
from tests.support.eventually_async import eventually_async

pytestmark = pytest.mark.asyncio(loop_scope="module")

RUNNING, PAUSED, STOPPED, FAILED = State.RUNNING, State.PAUSED, State.STOPPED, State.FAILED


async def test_a_new_connector_runs_with_its_tasks(parts: Parts):
    await parts.create("flights", tasks_max="2")
    await parts.reach("flights", RUNNING, RUNNING, RUNNING)
    info = parts.herder.connector_info("flights")
    assert info.type is ConnectorType.SOURCE
    assert info.tasks == [TaskId("flights", 0), TaskId("flights", 1)]
    assert parts.herder.task_status(TaskId("flights", 1)).version == "3.2.1"


async def test_a_change_of_settings_restarts_the_connector_and_its_tasks(parts: Parts):
    await parts.create("flights", tasks_max="1")
    await parts.reach("flights", RUNNING, RUNNING)
    before = parts.pids()
    await parts.herder.put_connector_config("flights", {"connector.class": CLASS, "tasks.max": "1", "topic": "other"})

    def restarted() -> bool:
        now = parts.pids()
        return now.keys() == before.keys() and not set(now.values()) & set(before.values())

    await eventually_async(restarted, "connector and task have other processes")
    await parts.reach("flights", RUNNING, RUNNING)


async def test_writing_the_same_settings_again_restarts_nothing(parts: Parts):
    await parts.create("flights", tasks_max="1")
    await parts.reach("flights", RUNNING, RUNNING)
    before = parts.pids()
    await parts.herder.put_connector_config("flights", parts.herder.connector_info("flights").config)
    await parts.create("marker")
    await parts.reach("marker", RUNNING, RUNNING)
    assert {unit: pid for unit, pid in parts.pids().items() if unit in before} == before


async def test_fewer_tasks_stop_those_that_are_too_many(parts: Parts):
    await parts.create("flights", tasks_max="3")
    await parts.reach("flights", RUNNING, RUNNING, RUNNING, RUNNING)
    await parts.herder.put_connector_config("flights", {"connector.class": CLASS, "tasks.max": "1"})
    await eventually_async(lambda: len(parts.pids()) == 2, "two tasks are gone")
    await parts.reach("flights", RUNNING, RUNNING)


async def test_pausing_keeps_the_tasks_and_stopping_ends_them(parts: Parts):
    await parts.create("flights", tasks_max="1")
    await parts.reach("flights", RUNNING, RUNNING)
    task = parts.pids()[TaskId("flights", 0)]
    await parts.herder.set_target_state("flights", TargetState.PAUSED)
    await parts.reach("flights", PAUSED, PAUSED)
    assert parts.pids() == {TaskId("flights", 0): task}
    await parts.herder.set_target_state("flights", TargetState.STARTED)
    await parts.reach("flights", RUNNING, RUNNING)
    await parts.herder.set_target_state("flights", TargetState.STOPPED)
    await parts.reach("flights", STOPPED)
    assert parts.pids() == {}
    await parts.herder.set_target_state("flights", TargetState.STARTED)
    await parts.reach("flights", RUNNING, RUNNING)


async def test_a_connector_can_be_created_stopped(parts: Parts):
    await parts.herder.create_connector("flights", {"connector.class": CLASS}, TargetState.STOPPED)
    await parts.reach("flights", STOPPED)
    assert parts.pids() == {}


async def test_a_failed_task_is_started_again_until_its_attempts_are_used_up(parts: Parts):
    await parts.create("flights", behaviour="fail")

    def failures() -> int:
        return sum(unit._row.failures for unit in parts.worker.units() if unit.is_task)

    await eventually_async(lambda: failures() == 3, "the task has failed three times")
    await parts.reach("flights", RUNNING, FAILED)
    assert parts.herder.task_status(TaskId("flights", 0)).trace == "Traceback: it broke"


async def test_a_fatal_failure_is_final_until_somebody_restarts_the_task(parts: Parts):
    await parts.create("flights", behaviour="fail-fatally")
    await parts.reach("flights", RUNNING, FAILED)
    (unit,) = (unit for unit in parts.worker.units() if unit.is_task)
    await eventually_async(lambda: unit.pid is None and unit._row.failures == 1, "its process has ended, for good")
    statuses: list[State] = []
    report = parts.worker.on_state
    parts.worker.on_state = lambda unit, state, *rest: (statuses.append(state), report(unit, state, *rest))
    await parts.herder.restart_task(TaskId("flights", 0))
    await eventually_async(lambda: statuses == [FAILED], "it was started and has failed anew")


async def test_what_has_failed_is_restarted_though_its_worker_has_not_read_its_own_status_back(parts: Parts):
    await parts.create("flights", behaviour="fail-fatally")
    await parts.reach("flights", RUNNING, FAILED)
    task = TaskId("flights", 0)
    pid = parts.pids()["flights"]
    (unit,) = (unit for unit in parts.worker.units() if unit.is_task)
    await eventually_async(lambda: unit.pid is None and unit._row.failures == 1, "its process has ended, for good")
    status = parts.herder.task_status(task)
    parts.stores.status.put_task_status(task, replace(status, state=RUNNING))
    await parts.reach("flights", RUNNING, RUNNING)  # as a reader sees it that is behind
    await parts.herder.restart_connector("flights", include_tasks=True, only_failed=True)
    await parts.reach("flights", RUNNING, FAILED)
    await eventually_async(lambda: unit.pid is None, "the process of the task has ended, which is after its status")
    assert parts.pids() == {"flights": pid}, "the connector has not failed"


async def test_a_process_that_ends_by_itself_leaves_its_last_words_in_the_status(parts: Parts):
    await parts.create("flights", behaviour="crash", task_restart_attempts_max="0")
    await parts.reach("flights", RUNNING, FAILED)
    trace = parts.herder.task_status(TaskId("flights", 0)).trace
    assert "ended with exit code 7" in trace
    assert "about to crash" in trace


async def test_a_new_configuration_starts_what_has_failed_for_good(parts: Parts):
    await parts.create("flights", behaviour="fail-fatally")
    await parts.reach("flights", RUNNING, FAILED)
    await parts.herder.patch_connector_config("flights", {"behaviour": "run"})
    await parts.reach("flights", RUNNING, RUNNING)


async def test_a_restart_gives_new_processes(parts: Parts):
    await parts.create("flights", tasks_max="2")
    await parts.reach("flights", RUNNING, RUNNING, RUNNING)
    before = parts.pids()
    plan = await parts.herder.restart_connector("flights", include_tasks=True, only_failed=False)
    assert plan is not None
    assert {plan.connector.state, *(task.state for task in plan.tasks.values())} == {State.RESTARTING}
    await eventually_async(
        lambda: len(parts.pids()) == 3 and not set(parts.pids().values()) & set(before.values()), "all are new"
    )
    await parts.reach("flights", RUNNING, RUNNING, RUNNING)


async def test_what_is_deleted_ends_and_is_forgotten(parts: Parts):
    await parts.create("flights", tasks_max="2")
    await parts.reach("flights", RUNNING, RUNNING, RUNNING)
    await parts.herder.delete_connector("flights")
    await eventually_async(lambda: not parts.pids(), "its processes have ended")
    assert parts.herder.connectors() == []
    with pytest.raises(NotFound, match="No status found for connector flights"):
        parts.herder.connector_status("flights")
    await eventually_async(lambda: parts.stores.status.connector_status("flights") is None, "its status is gone")


async def test_a_deleted_and_recreated_connector_starts_afresh(parts: Parts):
    await parts.create("flights", tasks_max="2")
    await parts.reach("flights", RUNNING, RUNNING, RUNNING)
    await parts.herder.delete_connector("flights")
    await parts.create("flights", tasks_max="1")
    await parts.reach("flights", RUNNING, RUNNING)


async def test_a_connector_that_is_recreated_before_its_end_was_noticed_begins_anew_all_the_same(parts: Parts):
    await parts.create("flights", tasks_max="1")
    await parts.reach("flights", RUNNING, RUNNING)
    before, settings = parts.pids(), parts.herder.connector_info("flights").config
    replay = parts.stores.config._replay  # a batch of the topic is read at once, as here
    replay.apply(ConnectorRecord("flights", None), replay.snapshot().offset - 1)
    parts.herder.on_config_change(ConnectorRemoved("flights"))
    replay.apply(ConnectorRecord("flights", settings), replay.snapshot().offset - 1)
    parts.herder.on_config_change(ConnectorChanged("flights"))
    await eventually_async(
        lambda: len(parts.pids()) == 2 and not set(parts.pids().values()) & set(before.values()),
        "both have other processes",
    )
    await parts.reach("flights", RUNNING, RUNNING)


async def test_who_hears_late_of_a_connectors_end_leaves_what_its_successor_says(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
):
    await parts.create("flights", tasks_max="1")
    await parts.reach("flights", RUNNING, RUNNING)
    replay, refresh = parts.stores.config._replay, parts.stores.config.refresh
    settings, at = parts.herder.connector_info("flights").config, replay.snapshot().offset - 1
    monkeypatch.setattr(parts.worker, "reconcile", lambda: None)  # its successor's units run elsewhere

    async def read_what_came_after(timeout_s: float) -> None:
        await refresh(timeout_s)
        replay.apply(ConnectorRecord("flights", settings), at)

    monkeypatch.setattr(parts.stores.config, "refresh", read_what_came_after)
    replay.apply(ConnectorRecord("flights", None), at)
    parts.herder.on_config_change(ConnectorRemoved("flights"))
    await eventually_async(lambda: not parts.worker._jobs, "all is looked at")
    assert await parts.stores.status.written(5)
    assert parts.stores.status.connector_status("flights").state is RUNNING
    assert parts.stores.status.task_status(TaskId("flights", 0)).state is RUNNING


async def test_what_was_said_of_a_connector_is_gone_before_it_can_be_created_anew(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
):
    await parts.herder.create_connector("flights", {"connector.class": CLASS}, TargetState.STOPPED)
    await parts.reach("flights", STOPPED)
    monkeypatch.setattr(parts.worker, "forget_connector", lambda _: None)
    await parts.herder.delete_connector("flights")
    assert parts.stores.status.connector_status("flights") is None


async def test_a_paused_connector_without_tasks_that_is_stopped_says_so(parts: Parts):
    await parts.herder.create_connector("flights", {"connector.class": CLASS}, TargetState.PAUSED)
    await parts.reach("flights", PAUSED)
    await parts.herder.set_target_state("flights", TargetState.STOPPED)
    await parts.reach("flights", STOPPED)
    await parts.herder.set_target_state("flights", TargetState.PAUSED)
    await parts.reach("flights", PAUSED)


@pytest.fixture
def slow_log(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration takes its time to be written, as a topic's does."""
    records = parts.stores.config._log
    write = records.write

    async def write_later(writes: Sequence[Write], timeout_s: float) -> None:
        await asyncio.sleep(0.2)  # stands for the topic: another request may come meanwhile
        await write(writes, timeout_s)

    monkeypatch.setattr(records, "write", write_later)


@pytest.mark.usefixtures("slow_log")
async def test_of_two_requests_that_create_a_connector_one_is_a_conflict(parts: Parts):
    results = await asyncio.gather(parts.create("flights"), parts.create("flights"), return_exceptions=True)
    assert {type(each) for each in results} == {type(None), Conflict}


@pytest.mark.usefixtures("slow_log")
async def test_a_connector_that_is_stopped_while_its_tasks_are_stored_has_none(parts: Parts):
    await parts.create("flights", tasks_max="1")
    await parts.reach("flights", RUNNING, RUNNING)
    await asyncio.gather(
        parts.herder.set_target_state("flights", TargetState.STOPPED),
        parts.herder.put_task_configs("flights", [{"behaviour": "run"}]),
        return_exceptions=True,
    )
    await parts.reach("flights", STOPPED)
    assert parts.herder.connector_info("flights").tasks == []


async def test_a_worker_that_stops_begins_with_nothing_more(parts: Parts):
    await parts.create("flights", tasks_max="1")
    await parts.reach("flights", RUNNING, RUNNING)
    await parts.herder.close()
    parts.worker.assign(frozenset({"flights"}), frozenset({TaskId("flights", 0)}), 9)
    assert list(parts.worker.units()) == []


async def test_a_first_failure_replaces_what_a_worker_said_in_an_earlier_life_of_the_group(parts: Parts):
    status = Status(state=RUNNING, worker_id="elsewhere:1", generation=99)
    parts.stores.status.put_task_status(TaskId("flights", 0), status)
    await eventually_async(lambda: parts.stores.status.task_status(TaskId("flights", 0)), "the old status is read")
    await parts.create("flights", tasks_max="1", behaviour="fail-fatally")
    await parts.reach("flights", RUNNING, FAILED)


async def test_bad_settings_are_refused_and_named(parts: Parts):
    with pytest.raises(BadRequest, match=r"1 error\(s\).*:\ntasks.max: is no number"):
        await parts.create("flights", tasks_max="many")
    assert parts.herder.connectors() == []


async def test_a_name_that_is_taken_is_a_conflict(parts: Parts):
    await parts.create("flights")
    with pytest.raises(Conflict, match="Connector flights already exists"):
        await parts.create("flights")


async def test_a_lost_membership_ends_every_process_at_once(parts: Parts):
    await parts.create("flights", tasks_max="2")
    await parts.reach("flights", RUNNING, RUNNING, RUNNING)
    await parts.herder.on_lost()
    assert parts.pids() == {}
    parts.member.request_rejoin()
    await eventually_async(lambda: len(parts.pids()) == 3, "all run again after joining anew")


async def test_offsets_are_stored_under_a_lease_and_refused_without(parts: Parts):
    await parts.create("flights", behaviour="commit")
    await eventually_async(
        lambda: any("committed" in line for line in parts.host.logs.lines("flights", 0, 100)), "the task committed"
    )
    assert [partition for partition, _ in await parts.herder.offsets("flights")] == [{"file": "a"}]
    parts.worker.extend_lease(boot_time_s() - 1)
    await eventually_async(
        lambda: any("refused: this worker" in line for line in parts.host.logs.lines("flights", 0, 100)),
        "a commit without a lease was refused",
    )


async def test_offsets_change_only_while_the_connector_is_stopped(parts: Parts):
    await parts.create("flights")
    await parts.reach("flights", RUNNING, RUNNING)
    with pytest.raises(BadRequest, match="Only a stopped connector's offsets"):
        await parts.herder.reset_offsets("flights")


async def test_stopped_connectors_take_no_task_settings(parts: Parts):
    await parts.herder.create_connector("flights", {"connector.class": CLASS}, TargetState.STOPPED)
    with pytest.raises(BadRequest, match="Connector flights is stopped"):
        await parts.herder.put_task_configs("flights", [{}])


async def test_a_worker_that_does_not_lead_sends_changes_to_the_leader(parts: Parts):
    await parts.create("flights")
    await parts.reach("flights", RUNNING, RUNNING)
    led = parts.member.assignment
    assert led is not None
    leader = "http://127.0.0.1:9999"
    parts.member.assignment = type(led)(
        connectors=led.connectors,
        tasks=led.tasks,
        leader_id="other",
        leader_url=leader,
        is_leader=False,
        generation=led.generation,
        config_offset=led.config_offset,
    )
    with pytest.raises(Elsewhere, match=leader):
        await parts.herder.delete_connector("flights")
    await parts.herder.restart_connector("flights", include_tasks=False, only_failed=False)  # it runs here
    with pytest.raises(NotFound):
        await parts.herder.restart_task(TaskId("flights", 5))
    await eventually_async(lambda: parts.states("flights")[0] is RUNNING, "the connector runs again")
    parts.member.assignment = led


async def test_a_unit_may_be_closed_by_several_at_once(parts: Parts):
    await parts.create("flights")
    await parts.reach("flights", RUNNING, RUNNING)
    (task,) = (unit for unit in parts.worker.units() if unit.is_task)
    async with asyncio.timeout(20):
        await asyncio.gather(task.close(), task.close())
        await task.close()


async def test_log_levels_reach_running_and_future_processes(parts: Parts):
    await parts.create("flights")
    await parts.reach("flights", RUNNING, RUNNING)
    await parts.herder.set_logger_level("ottla_file", "debug", cluster=True)
    said = "SetLogLevel(logger='ottla_file', level='DEBUG')"
    await eventually_async(
        lambda: any(said in line for line in parts.host.logs.lines("flights", 0, 100)), "the task was told"
    )
    await parts.create("later")
    await eventually_async(
        lambda: any(said in line for line in parts.host.logs.lines("later", 0, 100)), "a later task was told"
    )
    assert parts.herder.logger_level("ottla_file").level == "DEBUG"
    await parts.herder.set_logger_level("ottla_file", "info", cluster=False)


async def test_what_a_job_says_without_a_lease_is_not_taken_for_what_runs_elsewhere(parts: Parts):
    await parts.create("flights", tasks_max="1")
    await parts.reach("flights", RUNNING, RUNNING)
    task = TaskId("flights", 0)
    units = {unit.id: unit for unit in parts.worker.units()}

    def progress() -> Mapping[str, object] | None:
        return parts.herder.task_status(task).progress

    parts.worker.on_message(units[task], Progressed(progress={"rows": 1}))
    await eventually_async(lambda: progress() == {"rows": 1}, "the progress is shown")
    parts.worker.extend_lease(boot_time_s() - 1)
    parts.worker.on_message(units[task], Progressed(progress={"rows": 2}))
    parts.worker.on_state(units["flights"], RUNNING, "", "the next")
    await eventually_async(
        lambda: parts.herder.connector_status("flights").connector.version == "the next", "what was said is stored"
    )
    assert progress() == {"rows": 1}
