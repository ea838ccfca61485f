"""Producer ids for idempotent producers, handed out from blocks that the controller allocates.

A block is stored as used in etcd before any of its ids is given away, so no id is ever given twice; what is left of
a block when the broker stops is never used.
"""

import asyncio

from ottla_core.cluster.controller_client import ControllerClient
from ottla_core.cluster.membership import Membership


class ProducerIds:
    """The broker's present block."""

    def __init__(self, controller: ControllerClient, membership: Membership, broker_id: int) -> None:
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
            if self._next == self._end:
                block = await self._controller.allocate_producer_ids(
                    self._broker_id, self._membership.epoch, timeout_s=timeout_s
                )
                self._next, self._end = block.first, block.first + block.length
            taken = self._next
            self._next += 1
            return taken
