"""Has groups go back to where partitions are about to be cut off, for many partitions at a time.

Every group of the cluster may be concerned, so all coordinators are asked; that is not to be done for each partition
on its own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from ottla_core.background import start_detached
from ottla_core.errors import KafkaError, RequestTimedOut

PARTITIONS_AT_ONCE: Final = 1000
TIMEOUT_S: Final = 300.0


class Cut(NamedTuple):
    """Where a partition is about to be cut off.

    Attributes:
        offset: the first that is cut off.
        leader_epoch: under which that was decided.
    """

    offset: int
    leader_epoch: int


Cuts = Mapping[tuple[UUID, int], Cut]
"""By topic id and partition."""
Refusals = Mapping[tuple[UUID, int], KafkaError]
"""By topic id and partition, why groups were not set back."""


class GroupRewind:
    """Collects partitions, and asks; see `LocalGroupOffsets.set_all_back`."""

    def __init__(self, set_all_back: Callable[[Cuts], Awaitable[Refusals]]) -> None:
        self._set_all_back = set_all_back
        self._wanted: dict[tuple[UUID, int], tuple[Cut, asyncio.Future[None]]] = {}
        self._task: asyncio.Task[None] | None = None

    async def wait_for(self, topic_id: UUID, index: int, cut: Cut) -> None:
        """Return when no group is behind the cut of a partition any more.

        Raises:
            KafkaError: that could not be achieved in time; some groups may have gone back.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        former = self._wanted.pop((topic_id, index), None)
        if former is not None:
            former[1].cancel()
        self._wanted[topic_id, index] = cut, done
        if self._task is None or self._task.done():
            self._task = start_detached("setting groups back", self._run())
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await done
        except TimeoutError:
            raise RequestTimedOut("not all coordinators have set groups back in time") from None

    async def _run(self) -> None:
        while self._wanted:
            keys = list(self._wanted)[:PARTITIONS_AT_ONCE]
            asked = {key: self._wanted.pop(key) for key in keys}
            failure: KafkaError | None = None
            refusals: Refusals = {}
            try:
                refusals = await self._set_all_back({key: cut for key, (cut, _) in asked.items()})
            except KafkaError as error:
                failure = error
            except TimeoutError:
                failure = RequestTimedOut("a coordinator does not answer")
            for key, (_, done) in asked.items():
                _end(done, failure or refusals.get(key))


def _end(done: asyncio.Future[None], failure: KafkaError | None) -> None:
    if done.done():  # who has asked is gone
        return
    if failure is None:
        done.set_result(None)
    else:
        done.set_exception(failure)
