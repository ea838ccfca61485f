"""Who may change cluster state next: one at a time, the more urgent first, nobody for whom it would be too late.

Elections overtake everything that waits, because partitions without a leader serve nobody. A change waits no longer
than its caller does: a caller that gives up or hangs up before its turn leaves nothing behind, so that a controller
that was slow for a while does not then spend its time on changes that have long been asked for elsewhere.
"""

import asyncio
import heapq
from enum import IntEnum
from itertools import count

from ottla_core.errors import RequestTimedOut

WAITING_MAX = 1000
"""Changes that wait at most, but for elections, which only the controller itself asks for."""


class Urgency(IntEnum):
    """In which order changes get their turns."""

    ELECTION = 0
    """What the death or the return of a process asks for."""

    REPLICATION = 1
    """In-sync sets: producers wait for them."""

    ADMINISTRATION = 2
    """Everything else."""


class PriorityLock:
    """Gives turns. The holder of one passes it on."""

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: list[tuple[Urgency, int, asyncio.Future[None]]] = []
        self._numbers = count()

    @property
    def waiting(self) -> int:
        """How many wait for a turn."""
        return sum(not turn.done() for _, _, turn in self._waiting)

    async def take(self, urgency: Urgency, deadline: float | None) -> None:
        """Return when it is the caller's turn.

        Args:
            urgency: before whom.
            deadline: by the event loop's clock; None: whenever it comes.

        Raises:
            RequestTimedOut: it did not come in time, or too many wait already.
        """
        if not self._is_taken:
            self._is_taken = True
            return
        if urgency is not Urgency.ELECTION and self.waiting >= WAITING_MAX:
            raise RequestTimedOut(f"{WAITING_MAX} changes of cluster state wait already; try again later")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (urgency, next(self._numbers), turn))
        try:
            async with asyncio.timeout_at(deadline):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.pass_on()  # it came in the moment in which the caller gave up
            if isinstance(error, TimeoutError):
                raise RequestTimedOut("the change's turn did not come in time; other changes take long") from None
            raise

    def pass_on(self) -> None:
        """Give the turn to the next in line."""
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._is_taken = False
