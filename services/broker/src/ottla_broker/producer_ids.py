"""Producer ids for idempotent producers, handed out from blocks that the controller allocates.

A block is stored as used in etcd before any of its ids is given away, so no id is ever given twice; what is left of
a block when the broker stops is never used. An etcd that was restored from a backup counts from an earlier id: what a
broker has found in its logs says so (`Member.highest_producer_id`), and a block that begins there is given up.
"""

import asyncio
from collections.abc import Callable

from ottla_core.cluster.controller_rpc.controller_client import ControllerClient
from ottla_core.cluster.membership.membership import Membership

BELIEVABLE_ID_MAX = 2**62
"""Clients may write any producer id; higher ones than this say nothing about those that were given away."""


class ProducerIds:
    """The broker's present block."""

    def __init__(
        self, controller: ControllerClient, membership: Membership, broker_id: int, highest_in_logs: Callable[[], int]
    ) -> None:
        self._highest_in_logs = highest_in_logs
        self._controller = controller
        self._membership = membership
        self._broker_id = broker_id
        self._next = 0
        self._end = 0
        self._refill = asyncio.Lock()

    async def take(self, timeout_s: float) -> int:
        """Return an id that nobody else has.

        Raises:
            KafkaError: the controller could not be reached in time.
        """
        async with self._refill:
            if self._next == self._end or self._next <= self._highest_in_logs() <= BELIEVABLE_ID_MAX:
                block = await self._controller.allocate_producer_ids(
                    self._broker_id, self._membership.epoch, timeout_s=timeout_s
                )
                self._next, self._end = block.first, block.first + block.length
            taken = self._next
            self._next += 1
            return taken
