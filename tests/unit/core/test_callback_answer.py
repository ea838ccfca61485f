"""Answers that come by a call reach the connection, or the coroutine, that waits for them."""

import asyncio

import pytest

from ottla_broker.outcome import Answer
from ottla_core.callback_answer import CallbackAnswer
from ottla_core.errors import InvalidRequest
from tests.unit.broker.test_connection import Owner, connect, framed, wait_until

__all__ = ["connect"]


class Noted(CallbackAnswer[Answer]):
    """Remembers whether it was abandoned."""

    abandoned = False

    def abandon(self) -> None:
        self.abandoned = True


async def test_later_answers_leave_in_the_order_of_requests(connect) -> None:
    answers: list[Noted] = []
    owner = Owner(lambda _: answers.append(Noted()) or answers[-1])  # type: ignore[func-returns-value]
    peer = await connect(owner)
    peer.writer.write(framed(b"one") + framed(b"two"))
    await wait_until(lambda: len(answers) == 2)

    answers[1].settle([framed(b"second")])
    answers[0].settle([framed(b"first")])
    answers[0].settle([framed(b"never")])

    assert [await peer.receive() for _ in range(2)] == [b"first", b"second"]
    assert peer.connection.is_idle


async def test_an_answer_that_is_there_already_leaves_at_once(connect) -> None:
    def answer(frame: bytes) -> CallbackAnswer[Answer]:
        settled: CallbackAnswer[Answer] = CallbackAnswer()
        settled.settle([framed(frame)])
        return settled

    peer = await connect(Owner(answer))
    peer.writer.write(framed(b"one") + framed(b"two"))

    assert [await peer.receive() for _ in range(2)] == [b"one", b"two"]


@pytest.mark.parametrize("error", [InvalidRequest("malformed"), RuntimeError("a bug")])
async def test_an_error_closes_the_connection(connect, error: Exception) -> None:
    answers: list[Noted] = []
    owner = Owner(lambda _: answers.append(Noted()) or answers[-1])  # type: ignore[func-returns-value]
    peer = await connect(owner)
    peer.writer.write(framed(b"one") + framed(b"two"))
    await wait_until(lambda: len(answers) == 2)

    answers[0].fail(error)

    assert await peer.is_closed()
    assert [answer.abandoned for answer in answers] == [False, True]


async def test_a_connection_that_is_closed_abandons_its_answers(connect) -> None:
    answer = Noted()
    peer = await connect(Owner(lambda _: answer))
    peer.writer.write(framed(b"one"))
    await wait_until(lambda: not peer.connection.is_idle)

    peer.connection.close()

    assert answer.abandoned
    answer.settle([framed(b"too late")])
    assert await peer.is_closed()


async def test_a_later_answer_can_be_awaited() -> None:
    answer: CallbackAnswer[int] = CallbackAnswer()
    asyncio.get_running_loop().call_soon(answer.settle, 7)

    assert await answer == 7

    failed: CallbackAnswer[int] = CallbackAnswer()
    failed.fail(InvalidRequest("malformed"))
    with pytest.raises(InvalidRequest, match="malformed"):
        await failed


async def test_who_stops_awaiting_abandons_the_answer() -> None:
    answer = Noted()

    async def wait() -> Answer:
        return await answer

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert answer.abandoned
    answer.settle(None)
