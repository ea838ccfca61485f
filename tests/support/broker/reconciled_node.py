"""A broker's reconciler over real logs, with the cluster state given by the test."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID, uuid4

from ottla_broker.config import BrokerConfig
from ottla_broker.log.store.log_duties import LogStoreSettings
from ottla_broker.log.store.log_store import LogStore
from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.partition_table import PartitionTable
from ottla_broker.reconciliation import Reconciler
from ottla_core.clock import SystemClock
from ottla_core.cluster.state.model import ClusterState, Member, PartitionState, Role, Topic
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from tests.support.broker.partition_logs import batch_of

BROKER = 1
EPOCH = 70
DEADLINE_SECONDS = 10


@dataclass
class Feed:
    """Stands for the watch on etcd: the test says what the state is."""

    state: ClusterState = field(
        default_factory=lambda: ClusterState(
            revision=1, brokers={number: member(number) for number in (BROKER, 2, 3)}
        )
    )
    listeners: list[Callable[[ClusterState, ClusterState], None]] = field(default_factory=list)

    def subscribe(self, listener: Callable[[ClusterState, ClusterState], None]) -> None:
        self.listeners.append(listener)

    def publish(self, *topics: Topic, **changes: object) -> int:
        """Make these all the topics there are; those that are gone count as deleted."""
        former = self.state
        changes.setdefault(
            "deleted_topics",
            dict.fromkeys(former.topics_by_id, former.revision + 1) | dict(former.deleted_topics),
        )
        self.state = replace(
            former,
            revision=former.revision + 1,
            topics={topic.name: topic for topic in topics},
            topics_by_id={topic.id: topic for topic in topics},
            **changes,  # type: ignore[arg-type]
        )
        for listener in self.listeners:
            listener(former, self.state)
        return self.state.revision


@dataclass
class Registration:
    """Stands for this broker's registration, which lapses when etcd cannot be reached."""

    registered_epoch: int = EPOCH
    current: bool = True

    def is_current(self) -> bool:
        return self.current


@dataclass
class Fetchers:
    """Stands for those who copy: whom each partition is copied from, in which leader epoch."""

    followed: dict[str, tuple[int, int]] = field(default_factory=dict)

    def follow(self, partition: Partition, leader: Member) -> None:
        assert not partition.leads
        self.followed[str(partition.topic_partition)] = leader.id, partition.state.leader_epoch

    def unfollow(self, partition: Partition) -> None:
        self.followed.pop(str(partition.topic_partition), None)


def member(broker_id: int) -> Member:
    return Member(
        role=Role.BROKER, id=broker_id, epoch=1, incarnation=UUID(int=broker_id), rpc_address="", version="1"
    )


def topic(name: str = "t", partitions: int = 1, topic_id: UUID | None = None, **of_partition: object) -> Topic:
    topic_id = topic_id or uuid4()
    common = {
        "replicas": (BROKER,),
        "isr": (BROKER,),
        "leader": BROKER,
        "leader_epoch": 0,
        "leader_broker_epoch": EPOCH,
    }
    states = tuple(
        PartitionState(topic_id=topic_id, index=index, **{**common, **of_partition})  # type: ignore[arg-type]
        for index in range(partitions)
    )
    return Topic(name=name, id=topic_id, partitions=states)


class Node:
    """A broker's logs, table and reconciler."""

    def __init__(self, directories: list[Path], store: LogStore, feed: Feed) -> None:
        config = BrokerConfig.model_validate({"node.id": BROKER, "log.dirs": tuple(directories)})
        self.directories = directories
        self.store = store
        self.feed = feed
        self.registration = Registration()
        self.table = PartitionTable(config, feed, self.registration)  # type: ignore[arg-type]
        self.fetchers = Fetchers()
        self.now_ms = 0
        self.context = ReplicationContext(BROKER, 30_000, lambda: self.now_ms)
        self.changed = asyncio.Event()
        self.reconciler = Reconciler(
            config=config,
            store=store,
            feed=feed,  # type: ignore[arg-type]
            membership=self.registration,  # type: ignore[arg-type]
            partitions=self.table,
            context=self.context,
            fetchers=self.fetchers,
            changed=self.changed,
        )

    async def publish(self, *topics: Topic, **changes: object) -> None:
        assert await self.reconciler.wait_reached(self.feed.publish(*topics, **changes), DEADLINE_SECONDS)

    def append(self, named: str | UUID, index: int = 0) -> int:
        partition = self.table.leader_of(named, index)
        return partition.append(batch_of(b"v"), now_ms=SystemClock().time_ms(), all_in_sync=True).base_offset

    def leads(self, topic: str) -> bool:
        partition = self.table.get(TopicPartition(topic, 0))
        return partition is not None and partition.leads

    def names_on_disk(self) -> set[str]:
        return {path.name for directory in self.directories for path in directory.iterdir() if path.is_dir()}


async def open_store(directories: list[Path]) -> LogStore:
    return await LogStore.open(
        directories,
        node_id=BROKER,
        cluster_id="test",
        config_for=lambda _topic: TopicConfig(),
        clock=SystemClock(),
        settings=LogStoreSettings(),
    )


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():
            await asyncio.sleep(0.01)  # between two looks; the deadline ends them


@asynccontextmanager
async def node_in(directory: Path) -> AsyncIterator[Node]:
    """A started node with one log directory."""
    directory.mkdir()
    made = Node([directory], await open_store([directory]), Feed())
    await made.reconciler.start()
    yield made
    await made.reconciler.close()
    await made.store.close()
