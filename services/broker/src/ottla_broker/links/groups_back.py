"""Has groups go back to where partitions are about to be cut off, for many partitions at a time.

Every group of the cluster may be concerned, so all coordinators are asked; that is not to be done for each partition
on its own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final
from uuid import UUID

from ottla_core.background import start_detached
from ottla_core.errors import KafkaError, RequestTimedOut

PARTITIONS_AT_ONCE: Final = 1000
TIMEOUT_S: Final = 300.0

Ends = Mapping[tuple[UUID, int], int]
"""By topic id and partition, the offset that no group is to be further than."""


class GroupsBack:
    """Collects partitions, and asks; see `OwnGroups.set_all_back`."""

    def __init__(self, set_all_back: Callable[[Ends], Awaitable[None]]) -> None:
        self._set_all_back = set_all_back
        self._wanted: dict[tuple[UUID, int], tuple[int, asyncio.Future[None]]] = {}
        self._task: asyncio.Task[None] | None = None

    async def wait_for(self, topic_id: UUID, index: int, end_offset: int) -> None:
        """Return when no group is behind an offset of a partition any more.

        Raises:
            KafkaError: that could not be achieved in time; some groups may have gone back.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        former = self._wanted.pop((topic_id, index), None)
        if former is not None:
            former[1].cancel()
        self._wanted[topic_id, index] = end_offset, done
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
            try:
                await self._set_all_back({key: end_offset for key, (end_offset, _) in asked.items()})
            except (KafkaError, TimeoutError) as error:
                failure = error if isinstance(error, KafkaError) else RequestTimedOut("a coordinator does not answer")
                _end(asked.values(), failure)
            else:
                _end(asked.values(), None)


def _end(asked: Iterable[tuple[int, asyncio.Future[None]]], failure: KafkaError | None) -> None:
    for _, done in asked:
        if done.done():  # who has asked is gone
            continue
        if failure is None:
            done.set_result(None)
        else:
            done.set_exception(failure)
