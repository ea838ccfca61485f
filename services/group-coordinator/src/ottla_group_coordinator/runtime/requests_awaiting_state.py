"""Requests whose broker has seen topics come or go that this process has not seen yet.

A client means by a topic's name the topic that its broker shows. A coordinator whose view of the cluster state is
behind would take the name for a topic that is gone by now: store a commit under the id of that one, and forget it
when it learns of the deletion; or tell offsets of that one, and make the client skip records. So such requests wait
until this process has seen as much, usually for milliseconds. They are told to come again if that takes long.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ottla_core.topic_partition import TopicPartition
from ottla_group_coordinator.runtime.errors import CoordinatorLoadInProgress
from ottla_group_coordinator.runtime.waiting_request import WaitingRequest

WAIT_MAX_S = 3.0
"""How long a request waits; less than clients give a request."""

WAITING_MAX = 20_000
"""Requests that may wait; more are told to come again at once."""


class _Held(NamedTuple):
    revision: int
    give_up_at_s: float
    waiting: WaitingRequest
    shard: TopicPartition


class RequestsAwaitingState:
    """What waits for the cluster state.

    Args:
        submit: takes a request for a shard that need not wait any more.
    """

    def __init__(self, submit: Callable[[TopicPartition, WaitingRequest], None]) -> None:
        self._submit = submit
        self._held: deque[_Held] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def hold(self, revision: int, shard: TopicPartition, waiting: WaitingRequest) -> None:
        """Let a request wait until this process has seen `revision`."""
        if len(self._held) >= WAITING_MAX:
            waiting.refuse(CoordinatorLoadInProgress("the coordinator lags behind the cluster state"))
            return
        loop = asyncio.get_running_loop()
        self._held.append(_Held(revision, loop.time() + WAIT_MAX_S, waiting, shard))
        if self._timer is None:
            self._timer = loop.call_later(WAIT_MAX_S, self._give_up)

    def on_revision(self, revision: int) -> None:
        """Go on with what waited for `revision`, in the order in which it came."""
        if not self._held:
            return
        held, self._held = self._held, deque()
        for each in held:
            if each.revision <= revision:
                self._submit(each.shard, each.waiting)
            else:
                self._held.append(each)

    def close(self) -> None:
        """Wait for nothing any more; what waits is not answered."""
        self._held.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _give_up(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        while self._held and self._held[0].give_up_at_s <= loop.time():
            refusal = CoordinatorLoadInProgress("the coordinator lags behind the cluster state")
            self._held.popleft().waiting.refuse(refusal)
        if self._held:
            self._timer = loop.call_at(self._held[0].give_up_at_s, self._give_up)
