"""A worker alone leads and runs everything."""

import asyncio
import math

from ottla_connect.group.sole_member import SoleMember
from ottla_connect.group.view import Assignment, GroupView, Revoked
from ottla_connect.group.work import NO_WORK, Work
from ottla_connect.ids import TaskId
from ottla_core.background import background
from ottla_core.clock import boot_time_s
from tests.support.eventually_async import eventually_async


async def test_it_runs_everything_and_follows_the_configuration():
    view = GroupView(1, {"one": 2})
    told: list[tuple[Assignment, Revoked]] = []
    leases: list[float] = []

    async def take(assignment: Assignment, revoked: Revoked) -> None:
        told.append((assignment, revoked))

    member = SoleMember(url="http://me", view=lambda: view, on_assigned=take, on_lease=leases.append)
    await member.start()
    await eventually_async(lambda: told, "it is assigned")
    assignment, revoked = told[0]
    assert assignment.work == view.work
    assert revoked == NO_WORK
    assert assignment.is_leader
    assert assignment.task_urls == dict.fromkeys(assignment.tasks, "http://me")
    assert leases[0] > boot_time_s() + 10 * 365 * 24 * 3600
    assert math.isfinite(leases[0])

    view = GroupView(2, {"one": 1})
    member.request_rejoin()
    await eventually_async(lambda: len(told) == 3, "it is assigned anew, and again when what was revoked has stopped")
    (first, revoked), (second, nothing) = told[1:]
    assert revoked == Work(frozenset(), frozenset({TaskId("one", 1)}))
    assert first.held == told[0][0].work
    assert first.generation == 2
    assert (second.held, nothing) == (view.work, NO_WORK)
    assert member.assignment == second
    await member.close()


async def test_what_a_callback_raises_ends_the_worker():
    async def fail(_: Assignment, __: Revoked) -> None:
        raise RuntimeError("broken")

    member = SoleMember(url="http://me", view=lambda: GroupView(1, {}), on_assigned=fail, on_lease=lambda _: None)
    await member.start()
    assert "broken" in str(await asyncio.wait_for(background().vital_failure, 10))
    await member.close()
