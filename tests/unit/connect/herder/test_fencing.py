"""The leader fences the tasks that a source had before, once, before those of a new generation write (KIP-618)."""

from collections.abc import Mapping

import pytest
import pytest_asyncio

from ottla_connect.connector_states import State, TargetState
from ottla_core.rest.errors import Conflict, NotFound, RequestError
from tests.support.connect.herder_parts import HerderParts
from tests.support.eventually_async import eventually_async

pytestmark = pytest.mark.asyncio(loop_scope="module")

RUNNING = State.RUNNING


class Fencing:
    """In place of the process that fences: keeps how many tasks of which connector it was asked to fence."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.error: str | None = None

    async def fence(self, connector: str, config: Mapping[str, str], tasks: int) -> None:
        assert config["connector.class"]
        self.asked.append((connector, tasks))
        if self.error is not None:
            raise RequestError(self.error)


@pytest_asyncio.fixture(loop_scope="module")
async def fencing(parts: HerderParts, monkeypatch: pytest.MonkeyPatch) -> Fencing:
    fencing = Fencing()
    monkeypatch.setattr(parts.herder._changes, "_leads_in_transactions", True)
    monkeypatch.setattr(parts.herder._changes, "_has_transactional_sources", True)
    monkeypatch.setattr(parts.herder._validation, "fence_tasks", fencing.fence)
    return fencing


async def have_tasks(parts: HerderParts, count: int) -> None:
    config = parts.herder.connector_info("flights").config if "flights" in parts.herder.connectors() else {}
    if config:
        await parts.herder.put_connector_config("flights", {**config, "tasks.max": str(count)})
    else:
        await parts.create("flights", tasks_max=str(count))
    await parts.reach("flights", RUNNING, *[RUNNING] * count)


def fenced_count(parts: HerderParts) -> int | None:
    return parts.stores.config.state.fenced_counts.get("flights")


async def test_the_first_tasks_have_none_before_them_but_are_counted(parts: HerderParts, fencing: Fencing):
    await have_tasks(parts, 3)
    await parts.herder.fence_tasks("flights")
    assert (fencing.asked, fenced_count(parts)) == ([], 3)


async def test_as_many_are_fenced_as_there_were_before_and_only_once(parts: HerderParts, fencing: Fencing):
    await have_tasks(parts, 3)
    await parts.herder.fence_tasks("flights")
    await have_tasks(parts, 2)
    await parts.herder.fence_tasks("flights")
    await parts.herder.fence_tasks("flights")
    assert (fencing.asked, fenced_count(parts)) == ([("flights", 3)], 2)


async def test_a_sole_task_fences_its_sole_predecessor_by_itself(parts: HerderParts, fencing: Fencing):
    await have_tasks(parts, 1)
    await parts.herder.fence_tasks("flights")
    config = parts.herder.connector_info("flights").config
    await parts.herder.put_connector_config("flights", {**config, "other": "1"})
    await eventually_async(lambda: "flights" in parts.stores.config.state.unfenced, "there are other tasks")
    await parts.herder.fence_tasks("flights")
    assert (fencing.asked, fenced_count(parts)) == ([], 1)


async def test_what_could_not_be_fenced_is_fenced_with_the_next_request(parts: HerderParts, fencing: Fencing):
    await have_tasks(parts, 2)
    await parts.herder.fence_tasks("flights")
    await have_tasks(parts, 3)
    fencing.error = "no broker answers"
    with pytest.raises(RequestError, match="no broker answers"):
        await parts.herder.fence_tasks("flights")
    assert fenced_count(parts) == 2
    fencing.error = None
    await parts.herder.fence_tasks("flights")
    assert (fencing.asked, fenced_count(parts)) == ([("flights", 2)] * 2, 3)


async def test_tasks_that_were_given_meanwhile_by_another_leader_are_not_taken_for_the_present_ones(
    parts: HerderParts, fencing: Fencing, monkeypatch: pytest.MonkeyPatch
):
    await have_tasks(parts, 2)
    await parts.herder.fence_tasks("flights")
    await have_tasks(parts, 3)

    async def fence(connector: str, config: Mapping[str, str], tasks: int) -> None:
        await fencing.fence(connector, config, tasks)
        await parts.stores.config.put_task_configs("flights", [{"behaviour": "run"}])

    monkeypatch.setattr(parts.herder._validation, "fence_tasks", fence)
    with pytest.raises(Conflict, match="was given other tasks"):
        await parts.herder.fence_tasks("flights")
    assert fenced_count(parts) == 2


async def test_a_deleted_connectors_tasks_are_fenced_when_its_name_comes_again(parts: HerderParts, fencing: Fencing):
    await have_tasks(parts, 3)
    await parts.herder.fence_tasks("flights")
    await parts.herder.delete_connector("flights")
    await have_tasks(parts, 1)
    await parts.herder.fence_tasks("flights")
    assert (fencing.asked, fenced_count(parts)) == ([("flights", 3)], 1)


async def test_offsets_are_changed_when_no_former_task_can_commit_any_more(parts: HerderParts, fencing: Fencing):
    await have_tasks(parts, 2)
    await parts.herder.fence_tasks("flights")
    await parts.stores.offsets.write("flights", [({"file": "a"}, {"position": 3})])
    await parts.herder.set_target_state("flights", TargetState.STOPPED)
    await parts.herder.reset_offsets("flights")
    assert (fencing.asked, fenced_count(parts)) == ([("flights", 2)], 0)
    assert await parts.herder.offsets("flights") == []


async def test_offsets_stay_as_they_are_when_former_tasks_cannot_be_fenced(parts: HerderParts, fencing: Fencing):
    await have_tasks(parts, 2)
    await parts.herder.fence_tasks("flights")
    await parts.stores.offsets.write("flights", [({"file": "a"}, {"position": 3})])
    await parts.herder.set_target_state("flights", TargetState.STOPPED)
    fencing.error = "no broker answers"
    with pytest.raises(RequestError, match="no broker answers"):
        await parts.herder.reset_offsets("flights")
    assert await parts.herder.offsets("flights") == [({"file": "a"}, {"position": 3})]


async def test_a_leader_without_transactions_says_so(parts: HerderParts):
    await have_tasks(parts, 1)
    with pytest.raises(Conflict, match=r"exactly\.once\.source\.support=disabled"):
        await parts.herder.fence_tasks("flights")


@pytest.mark.usefixtures("fencing")
async def test_tasks_of_no_connector_cannot_be_fenced(parts: HerderParts):
    with pytest.raises(NotFound):
        await parts.herder.fence_tasks("flights")
