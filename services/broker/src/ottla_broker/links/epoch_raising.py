"""Having the controller raise leader epochs here to those of the source, many at a time.

The controller changes the partitions, the cluster state brings the change, and the role that follows from it has the
partitions fetched anew. A wish that is outdated when it arrives is passed over there; who still needs it asks again.
"""

import asyncio
from typing import Final, Protocol
from uuid import UUID

import structlog

from ottla_core.background import start_recurring
from ottla_core.cluster.controller_rpc import link_messages
from ottla_core.cluster.controller_rpc.controller_client import ControllerClient
from ottla_core.cluster.controller_rpc.link_api import LeaderEpochRaise
from ottla_core.errors import KafkaError
from ottla_proto.gen.ottla import links_pb2 as pb

RAISED_AT_ONCE_MAX: Final = 1000
TIMEOUT_S: Final = 10.0
PAUSE_S: Final = 1.0

logger = structlog.get_logger("links")


class Registration(Protocol):
    """This broker's registration."""

    @property
    def registered_epoch(self) -> int:
        """The epoch of the latest one."""


class EpochRaising:
    """Collects wishes, and asks the controller."""

    def __init__(self, controller: ControllerClient, broker_id: int, membership: Registration) -> None:
        self._controller = controller
        self._broker_id = broker_id
        self._membership = membership
        self._wanted: dict[tuple[UUID, int], LeaderEpochRaise] = {}
        self._is_wanted = asyncio.Event()
        self._task = start_recurring("leader epochs of links", self._ask)

    def want(self, wanted: LeaderEpochRaise) -> None:
        """Have an epoch raised; a later wish for the same partition replaces this one."""
        self._wanted[wanted.topic_id, wanted.index] = wanted
        self._is_wanted.set()

    async def close(self) -> None:
        """Ask no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _ask(self) -> None:
        while True:
            await self._is_wanted.wait()
            keys = list(self._wanted)[:RAISED_AT_ONCE_MAX]
            asked = [self._wanted.pop(key) for key in keys]
            if not self._wanted:
                self._is_wanted.clear()
            request = pb.RaiseLeaderEpochsRequest(
                broker_id=self._broker_id,
                broker_epoch=self._membership.registered_epoch,
                raises=link_messages.LEADER_EPOCH_RAISE.to_messages(asked),
            )
            try:
                await self._controller.forward("RaiseLeaderEpochs", request, timeout_s=TIMEOUT_S)
            except KafkaError as error:  # those who need it ask again
                logger.info("leader epochs could not be raised", partitions=len(asked), error=error.message)
                await asyncio.sleep(PAUSE_S)
