"""A worker's stores, opened together: in topics if it is distributed, in memory and a file if it is standalone."""

import asyncio
from collections.abc import Callable

from ottla_connect.config import WorkerConfig
from ottla_connect.state.config_state import ConfigChange
from ottla_connect.state.config_store import ConfigStore, LeaderWrites
from ottla_connect.state.file_log import FileLog
from ottla_connect.state.kafka_clients import KafkaClients
from ottla_connect.state.keyed_log import KeyedLog, LogError, MemoryLog
from ottla_connect.state.leader_producer import LeaderProducer
from ottla_connect.state.offset_store import OffsetStore
from ottla_connect.state.status_store import StatusStore
from ottla_connect.state.topic_log import TopicLog
from ottla_connect.state.topic_producer import TopicProducer
from ottla_connect.storage_settings import StoreName


class Stores:
    """What a worker knows and remembers.

    Attributes:
        config: connectors and what is to become of them.
        status: how connectors and tasks are.
        offsets: how far source connectors have come.
        failed: resolves with the reason if a store is lost for good, as when its topic is deleted.
    """

    def __init__(
        self,
        *,
        config: KeyedLog,
        status: KeyedLog,
        offsets: KeyedLog,
        failed: "asyncio.Future[LogError]",
        producer: TopicProducer | None = None,
        leader_writes: LeaderWrites | None = None,
    ) -> None:
        self.config = ConfigStore(config, leader_writes)
        self.status = StatusStore(status)
        self.offsets = OffsetStore(offsets)
        self.failed = failed
        self._producer = producer

    async def start(self, on_change: Callable[[ConfigChange], None]) -> None:
        """Read all stores; `on_change` is called for what changes afterwards in the cluster's configuration.

        Raises:
            LogError: one cannot be read; all are closed again.
        """
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.config.start(on_change))
                group.create_task(self.status.start())
                group.create_task(self.offsets.start())
        except BaseExceptionGroup as errors:
            await self.close()
            raise errors.exceptions[0] from None

    async def close(self) -> None:
        """Write what waits to be written, and close everything."""
        await asyncio.gather(self.config.close(), self.status.close(), self.offsets.close())
        if self._producer is not None:
            await self._producer.close()


def open_distributed(config: WorkerConfig) -> Stores:
    """Return stores in the topics that the settings name; `start` makes them if they are not there."""
    clients = KafkaClients(config)
    producer = TopicProducer(clients.producer)
    failed: asyncio.Future[LogError] = asyncio.get_running_loop().create_future()

    def on_failure(error: LogError) -> None:
        if not failed.done():
            failed.set_result(error)

    def topic_log(store: StoreName) -> TopicLog:
        return TopicLog(
            clients,
            producer,
            config.storage_topic(store),
            setting=f"{store}.storage.topic",
            single_partition=store == "config",
            on_failure=on_failure,
        )

    leader_writes = None
    if config.leads_in_transactions:
        leader_writes = LeaderProducer(clients.leader_producer, config.storage_topic("config").name)
    return Stores(
        config=topic_log("config"),
        status=topic_log("status"),
        offsets=topic_log("offset"),
        failed=failed,
        producer=producer,
        leader_writes=leader_writes,
    )


def open_standalone(config: WorkerConfig) -> Stores:
    """Return stores in memory, and offsets in the file that the settings name."""
    path = config.offset_storage_file_filename
    assert path is not None, "the settings of a standalone worker are checked for it"
    return Stores(
        config=MemoryLog(),
        status=MemoryLog(),
        offsets=FileLog(path),
        failed=asyncio.get_running_loop().create_future(),
    )
