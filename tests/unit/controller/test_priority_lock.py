"""Who may change cluster state next."""

import asyncio

import pytest

from ottla_controller import priority_lock
from ottla_controller.priority_lock import PriorityLock, Urgency
from ottla_core.errors import RequestTimedOut
from tests.support.eventually_async import eventually_async

ADMINISTRATION, REPLICATION, ELECTION = Urgency.ADMINISTRATION, Urgency.REPLICATION, Urgency.ELECTION


async def queued(given: PriorityLock, order: list[str], name: str, urgency: Urgency) -> asyncio.Task[None]:
    """Someone who waits for a turn, notes that it came and passes it on."""
    waiting = given.waiting

    async def take() -> None:
        await given.take(urgency, None)
        order.append(name)
        given.pass_on()

    task = asyncio.create_task(take())
    await eventually_async(lambda: given.waiting > waiting, f"{name} waits")
    return task


async def test_elections_overtake_and_equals_keep_their_order() -> None:
    given = PriorityLock()
    order: list[str] = []
    await given.take(ADMINISTRATION, None)
    tasks = [
        await queued(given, order, "creation", ADMINISTRATION),
        await queued(given, order, "deletion", ADMINISTRATION),
        await queued(given, order, "in-sync set", REPLICATION),
        await queued(given, order, "election", ELECTION),
    ]
    given.pass_on()
    await asyncio.gather(*tasks)
    assert order == ["election", "in-sync set", "creation", "deletion"]
    await asyncio.wait_for(given.take(ADMINISTRATION, None), 10)  # nobody kept it


async def test_a_turn_does_not_come_after_the_callers_deadline() -> None:
    given = PriorityLock()
    await given.take(ADMINISTRATION, None)
    with pytest.raises(RequestTimedOut):
        await given.take(ADMINISTRATION, asyncio.get_running_loop().time() + 0.01)
    given.pass_on()
    await asyncio.wait_for(given.take(ADMINISTRATION, None), 10)


async def test_who_hangs_up_is_passed_over_even_in_the_moment_of_its_turn() -> None:
    given = PriorityLock()
    order: list[str] = []
    await given.take(ADMINISTRATION, None)
    hanging_up = asyncio.create_task(given.take(ADMINISTRATION, None))
    await eventually_async(lambda: given.waiting == 1, "it waits")
    patient = await queued(given, order, "patient", ADMINISTRATION)
    given.pass_on()  # to the one that hangs up before it learns of it
    hanging_up.cancel()
    await asyncio.wait_for(patient, 10)
    assert order == ["patient"]


async def test_the_queue_is_bounded_but_for_elections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority_lock, "WAITING_MAX", 2)
    given = PriorityLock()
    order: list[str] = []
    await given.take(ADMINISTRATION, None)
    tasks = [await queued(given, order, name, ADMINISTRATION) for name in ("first", "second")]
    with pytest.raises(RequestTimedOut, match="2 changes"):
        await given.take(REPLICATION, None)
    tasks.append(await queued(given, order, "election", ELECTION))
    given.pass_on()
    await asyncio.gather(*tasks)
    assert order == ["election", "first", "second"]
