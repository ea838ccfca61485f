"""Threads for what blocks: asking clusters. So many at a time, so many waiting, each question with a deadline."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ottla_operations.errors import OperationError

Result = TypeVar("Result")


class BoundedThreads:
    """A pool that refuses what would wait behind too many.

    Args:
        threads_max: questions at a time; as many again may wait.
    """

    def __init__(self, threads_max: int) -> None:
        self._pool = ThreadPoolExecutor(threads_max, thread_name_prefix="cluster")
        self._under_way_max = 2 * threads_max
        self.under_way = 0
        self.refused = 0

    async def run(self, call: Callable[[], Result], *, within_s: float, subject: str) -> Result:
        """Return what a call returns in a thread.

        Args:
            call: it.
            within_s: how long the caller waits; the thread is not ended by that, but ends by its own deadlines.
            subject: whom it asks, for the message.

        Raises:
            OperationError: there are too many questions, or the time is up.
        """
        if self.under_way >= self._under_way_max:
            self.refused += 1
            raise OperationError("the console has too many questions under way; try again in a moment")
        self.under_way += 1
        answer = asyncio.get_running_loop().run_in_executor(self._pool, call)
        answer.add_done_callback(self._finished)
        try:
            return await asyncio.wait_for(asyncio.shield(answer), within_s)
        except TimeoutError:
            raise OperationError(f"{subject} did not answer within {within_s:.0f} s; try again in a moment") from None

    def leave(self, call: Callable[[], None]) -> None:
        """Have a thread end something, and wait for nothing; for what is left behind by a browser that has gone."""
        self._pool.submit(call)

    def close(self) -> None:
        """Take nothing more; what runs ends by its own deadlines."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _finished(self, answer: asyncio.Future[Any]) -> None:
        self.under_way -= 1
        if not answer.cancelled():
            answer.exception()  # its waiter may have gone, and then nobody else would look
