"""Opening a log store in tests, without a broker."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

from ottla_broker.log.files.log_disposal import LogDisposal
from ottla_broker.log.store.log_duties import LogStoreSettings
from ottla_broker.log.store.log_store import LogStore
from ottla_core.clock import SystemClock
from ottla_core.throttle_config import UNLIMITED
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from tests.support.broker.partition_logs import NOW_MS

CONFIG = replace(TopicConfig(), file_delete_delay_ms=0)
TOPIC_ID = UUID("12345678-1234-5678-1234-567812345678")
FLIGHTS = TopicPartition("flights", 3)
DEADLINE_S = 10.0


class RecordsClock(SystemClock):
    """A clock that stands at the time of the records, plus what a test adds."""

    def __init__(self, later_ms: int = 0) -> None:
        self.later_ms = later_ms

    def time_ms(self) -> int:
        return NOW_MS + self.later_ms


@asynccontextmanager
async def store_in(
    *directories: Path,
    config: TopicConfig = CONFIG,
    cluster_id: str = "cluster",
    later_ms: int = 0,
    move_rate: Callable[[], int] = lambda: UNLIMITED,
    **settings: Any,
) -> AsyncIterator[LogStore]:
    """An open store, which is closed cleanly afterwards."""
    store = await LogStore.open(
        directories,
        node_id=1,
        cluster_id=cluster_id,
        config_for=lambda _: config,
        clock=RecordsClock(later_ms),
        settings=LogStoreSettings(**settings),
        move_rate=move_rate,
    )
    try:
        yield store
    finally:
        await store.close()


def crash(directory: Path) -> None:
    """Make a cleanly closed directory look as if the broker had been killed."""
    (directory / ".kafka_cleanshutdown").unlink()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens in the background."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.01)  # between two looks; the deadline ends them


async def retire(
    store: LogStore, topic_partition: TopicPartition, retirement: LogDisposal = LogDisposal.DELETE
) -> None:
    """Take a log out of use, as the reconciler does."""
    log = store.logs[topic_partition]
    async with store.at_rest(log):
        retired = store.take_away(log, retirement)
    await store.sync_retired(retired)
