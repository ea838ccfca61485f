"""The log store of a simulated broker: what the real reconciler needs of `LogStore`, with a disk's delays.

Creating a log, and waiting until nothing works in a log's directory, take as long as the seed says; a creation fails
now and then. What is on the disk survives the broker; which logs are open does not.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from uuid import UUID

from ottla_broker.log.files.log_disposal import LogDisposal
from ottla_core.errors import KafkaStorageError
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from tests.simulation.fake_log import SimulatedLog

if TYPE_CHECKING:
    from tests.simulation.simulated_broker import SimulatedBroker

CREATION_FAILURES = 0.03


class SimulatedDirectories:
    """The log directories of one life of a broker.

    Attributes:
        lost: partitions whose logs have vanished since the last life, as checkpoints tell.
    """

    def __init__(self, broker: "SimulatedBroker") -> None:
        self._disk = broker.disk
        self.lost = set(broker.disk.vanished)

    def settle_loss(self, name: TopicPartition) -> None:
        """Forget that a log has vanished."""
        self.lost.discard(name)
        self._disk.vanished.discard(name)


class SimulatedLogStore:
    """The logs of one life of a broker.

    Attributes:
        logs: what is open.
        directories: what they have lost.
    """

    def __init__(self, broker: "SimulatedBroker") -> None:
        self._broker = broker
        self.logs = dict(broker.disk.logs)
        self.directories = SimulatedDirectories(broker)
        for log in self.logs.values():
            log.truncation.work = self._work

    def get(self, name: TopicPartition) -> SimulatedLog | None:
        """Return an open log."""
        return self.logs.get(name)

    async def create(
        self, name: TopicPartition, topic_id: UUID, config: TopicConfig, *, is_new: bool
    ) -> SimulatedLog:
        """Create a log, after a while; one of the same topic is returned as it is."""
        del config, is_new
        existing = self.logs.get(name)
        if existing is not None and existing.topic_id == topic_id:
            return existing
        if existing is not None:
            raise KafkaStorageError(f"a log of an earlier topic is in the way of {name}")
        await self._work()
        if self._broker.schedule.chance(CREATION_FAILURES):
            raise KafkaStorageError(f"no room for {name}")
        log = SimulatedLog(name, self._broker.broker_id, self._broker.observer, topic_id)
        log.truncation.work = self._work
        self.logs[name] = self._broker.disk.logs[name] = log
        self._broker.note("creates its log of {}", name)
        return log

    @asynccontextmanager
    async def at_rest(self, log: SimulatedLog) -> AsyncIterator[None]:
        """Wait until nothing works in a log's directory."""
        del log
        await self._work()
        yield

    def take_away(self, log: SimulatedLog, retirement: LogDisposal) -> SimulatedLog:
        """Take a log out of use."""
        assert self.logs.pop(log.topic_partition) is log
        del self._broker.disk.logs[log.topic_partition]
        self._broker.observer.retired(log)
        self._broker.note("retires its log of {}{}", log.topic_partition, retirement.value)
        return log

    async def sync_retired(self, retired: SimulatedLog) -> None:
        """Take the time of an fsync."""
        del retired
        await self._work()

    async def _work(self) -> None:
        broker = self._broker
        await asyncio.sleep(
            broker.schedule.between(0.0, broker.cluster.disk_delay_max_ms) / 1000
        )  # how slow the disk is
