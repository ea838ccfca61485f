"""A question asked for many at once is asked anew for whoever comes while it is under way."""

import asyncio

import pytest

from ottla_connect.state.shared_round import SharedRound


class Oracle:
    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()

    async def ask(self) -> int:
        self.asked += 1
        number = self.asked
        await self.may_answer.wait()
        return number


async def test_those_who_come_together_share_an_answer_and_later_ones_get_a_later_one() -> None:
    oracle = Oracle()
    shared = SharedRound(oracle.ask)
    first = [asyncio.create_task(shared.join()) for _ in range(3)]
    while oracle.asked == 0:
        await asyncio.sleep(0)
    later = [asyncio.create_task(shared.join()) for _ in range(3)]
    await asyncio.sleep(0)
    assert oracle.asked == 1
    oracle.may_answer.set()
    assert await asyncio.gather(*first) == [1, 1, 1]
    assert await asyncio.gather(*later) == [2, 2, 2]


async def test_whoever_stops_waiting_takes_nothing_from_the_others() -> None:
    oracle = Oracle()
    shared = SharedRound(oracle.ask)
    one, other = asyncio.create_task(shared.join()), asyncio.create_task(shared.join())
    await asyncio.sleep(0)
    one.cancel()
    oracle.may_answer.set()
    assert await other == 1
    assert await shared.join() == 2


async def test_all_are_told_of_a_failure_and_the_next_round_is_not_hindered() -> None:
    answers = iter([ValueError("no"), 7])

    async def ask() -> int:
        answer = next(answers)
        if isinstance(answer, ValueError):
            raise answer
        return answer

    shared = SharedRound(ask)
    with pytest.raises(ValueError, match="no"):
        await shared.join()
    assert await shared.join() == 7
