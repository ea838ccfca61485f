"""What the leading controller does during its term.

Changes go one at a time: look at the state, let a pure function decide (`topics`, `configs`, `leader_election`,
`shard_assignment`), write, and wait until the own state shows it. So each decision sees all that were made before.
Partitions are written before the topic that counts them and deleted after it, shards likewise; what a cut-short
change leaves behind is removed at the beginning of a term and, after a change that failed, before the next one.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import structlog

from ottla_controller import configs, topics
from ottla_controller.configs import BrokerTarget, ConfigPlan, TopicTarget
from ottla_controller.leader_election import elections, topics_to_examine
from ottla_controller.producer_ids import next_block
from ottla_controller.shard_assignment import (
    NO_PRODUCER_ID,
    needs_examination,
    reassigned_shards,
    with_producer_ids,
)
from ottla_controller.state_writer import StateWriter, Write, WriteConflict
from ottla_controller.topics import TopicDefaults
from ottla_core.cluster import codec
from ottla_core.cluster.codec import TopicRecord
from ottla_core.cluster.controller_api import (
    AlteredResource,
    ConfigResourceChange,
    CreatedTopic,
    DeletedTopic,
    GrownTopic,
    NewPartitions,
    NewTopic,
    ProducerIdBlock,
    TopicReference,
)
from ottla_core.cluster.etcd import EtcdClient
from ottla_core.cluster.etcd_errors import EtcdError
from ottla_core.cluster.etcd_operations import ABSENT
from ottla_core.cluster.feed import ClusterStateFeed
from ottla_core.cluster.keys import KeySpace
from ottla_core.cluster.model import NO_COORDINATOR, NO_LEADER, ClusterState, PartitionState, Shard, Topic
from ottla_core.errors import KafkaError, StaleBrokerEpoch
from ottla_core.group_shards import GROUP_TOPIC

OWN_WRITE_TIMEOUT_S = 10.0
CONFLICT_ATTEMPTS = 5

Result = TypeVar("Result")

log = structlog.get_logger("controller")


class ActiveController:
    """Decides and writes, for one term."""

    def __init__(
        self,
        *,
        etcd: EtcdClient,
        feed: ClusterStateFeed,
        writer: StateWriter,
        key_space: KeySpace,
        defaults: TopicDefaults,
        unclean_election_default: bool,
    ) -> None:
        self._etcd = etcd
        self._feed = feed
        self._writer = writer
        self._keys = key_space
        self._defaults = defaults
        self._unclean_election_default = unclean_election_default
        self._changing = asyncio.Lock()
        self._running: set[asyncio.Task[Any]] = set()
        self._may_have_orphans = False
        self._examined: ClusterState | None = None
        self._shards_examined: ClusterState | None = None
        self._own_producer_ids: deque[int] = deque()

    async def create_topics(
        self, requested: Sequence[NewTopic], *, validate_only: bool
    ) -> tuple[list[CreatedTopic], int]:
        """Create topics; return the results and the revision that contains them."""

        async def change() -> tuple[list[CreatedTopic], int]:
            plans = topics.plan_creations(requested, self._feed.state, self._defaults)
            created = [plan.topic for plan in plans if plan.topic is not None]
            if not validate_only:
                await self._write([write for topic in created for write in self._creation(topic)])
                for topic in created:
                    log.info("topic created", topic=topic.name, partitions=len(topic.partitions))
            return [plan.result for plan in plans], self._feed.state.revision

        return await self._one_at_a_time(change)

    async def delete_topics(self, requested: Sequence[TopicReference]) -> tuple[list[DeletedTopic], int]:
        """Delete topics; return the results and the revision that contains them."""

        async def change() -> tuple[list[DeletedTopic], int]:
            plans = topics.plan_deletions(requested, self._feed.state)
            deleted = [plan.topic for plan in plans if plan.topic is not None]
            await self._write([write for topic in deleted for write in self._deletion(topic)])
            for topic in deleted:
                log.info("topic deleted", topic=topic.name)
            return [plan.result for plan in plans], self._feed.state.revision

        return await self._one_at_a_time(change)

    async def create_partitions(
        self, requested: Sequence[NewPartitions], *, validate_only: bool
    ) -> tuple[list[GrownTopic], int]:
        """Add partitions; return the results and the revision that contains them."""

        async def change() -> tuple[list[GrownTopic], int]:
            plans = topics.plan_growths(requested, self._feed.state)
            if not validate_only:
                writes: list[Write] = []
                for plan in plans:
                    if plan.topic is not None:
                        writes.extend(self._partition_write(partition) for partition in plan.added)
                        writes.append(self._topic_write(plan.topic))
                await self._write(writes)
            return [plan.result for plan in plans], self._feed.state.revision

        return await self._one_at_a_time(change)

    async def alter_configs(
        self, requested: Sequence[ConfigResourceChange], *, replace_all: bool, validate_only: bool
    ) -> tuple[list[AlteredResource], int]:
        """Change settings; return the results and the revision that contains them."""

        async def change() -> tuple[list[AlteredResource], int]:
            plans = configs.plan_config_changes(requested, self._feed.state, replace_all=replace_all)
            if not validate_only:
                planned = [await self._config_write(plan) for plan in plans]
                await self._write([write for write in planned if write is not None])
            return [plan.result for plan in plans], self._feed.state.revision

        return await self._one_at_a_time(change)

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> ProducerIdBlock:
        """Return a block of producer ids for a broker.

        Raises:
            StaleBrokerEpoch: the broker is not registered under this epoch.
        """
        await self._feed.wait_for_revision(broker_epoch, OWN_WRITE_TIMEOUT_S)

        async def change() -> ProducerIdBlock:
            broker = self._feed.state.brokers.get(broker_id)
            if broker is None or broker.epoch != broker_epoch:
                raise StaleBrokerEpoch(f"broker {broker_id} is not registered under epoch {broker_epoch}")
            return await self._take_producer_id_block()

        return await self._one_at_a_time(change)

    async def begin_term(self) -> None:
        """Tidy up what earlier terms left: half-made and half-deleted topics, partitions without a live leader.

        Shards without a live owner are left to `assign_shards`: they must not keep a term from beginning.
        """
        self._may_have_orphans = True  # the term before may have ended in the middle of a change
        await self.elect_leaders()

    async def elect_leaders(self) -> None:
        """Give every partition whose leader is gone a new one, if a replica is fit."""

        async def change() -> None:
            state = self._feed.state
            elected = elections(
                topics_to_examine(self._examined, state), state.brokers, allows_unclean=self._allows_unclean
            )
            await self._write([self._partition_write(partition) for partition in elected])
            self._examined = state
            if elected:
                without = sum(partition.leader == NO_LEADER for partition in elected)
                log.info("leaders elected", partitions=len(elected), without_leader=without)

        await self._one_at_a_time(change)

    async def assign_shards(self) -> None:
        """Give every shard whose owner is gone a new one, and every coordinator its fair share."""
        if not needs_examination(self._shards_examined, self._feed.state):
            return

        async def change() -> None:
            state = self._feed.state
            topic = state.topics.get(GROUP_TOPIC)
            if topic is not None:  # while it is incomplete, its shards stay as they are
                await self._write_shards(reassigned_shards(len(topic.partitions), state.shards, state.coordinators))
            self._shards_examined = state

        await self._one_at_a_time(change)

    async def _write_shards(self, shards: Sequence[Shard]) -> None:
        if not shards:
            return
        new_ids = await self._draw_producer_ids(sum(shard.producer_id == NO_PRODUCER_ID for shard in shards))
        await self._write([self._shard_write(shard) for shard in with_producer_ids(shards, new_ids)])
        without = sum(shard.coordinator == NO_COORDINATOR for shard in shards)
        log.info("shards assigned", shards=len(shards), without_coordinator=without)

    async def _draw_producer_ids(self, count: int) -> list[int]:
        """Return producer ids that were never used, from blocks that the controller takes for itself."""
        while len(self._own_producer_ids) < count:
            block = await self._take_producer_id_block()
            self._own_producer_ids.extend(range(block.first, block.first + block.length))
        return [self._own_producer_ids.popleft() for _ in range(count)]

    async def _take_producer_id_block(self) -> ProducerIdBlock:
        found = await self._etcd.read(self._keys.producer_ids)
        block = next_block(codec.decode_next_producer_id(found.value) if found else 0)
        value = codec.encode_next_producer_id(block.first + block.length)
        replaces = found.mod_revision if found else ABSENT
        await self._write([Write(key=self._keys.producer_ids, value=value, replaces=replaces)])
        return block

    async def _one_at_a_time(self, change: Callable[[], Coroutine[None, None, Result]]) -> Result:
        """Make a change, to its end even if the caller is cancelled, for example because its client hung up.

        Raises:
            KafkaError: the change is refused, this controller no longer leads, or etcd fails.
        """
        task = asyncio.create_task(self._in_turn(change))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _in_turn(self, change: Callable[[], Coroutine[None, None, Result]]) -> Result:
        """Make a change when the earlier ones are done, deciding anew when the state turns out to have moved on."""
        async with self._changing:
            for _ in range(CONFLICT_ATTEMPTS):
                try:
                    await self._tidy_up()
                    return await change()
                except WriteConflict as conflict:
                    log.info("deciding again", reason=str(conflict))
                    self._may_have_orphans = True
                    await self._feed.wait_for_revision(conflict.revision, OWN_WRITE_TIMEOUT_S)
                except EtcdError as error:
                    log.error("etcd failed a change", error=str(error))
                    self._may_have_orphans = True
                    raise KafkaError(f"the change could not be stored: {error}") from error
                except KafkaError:  # the term is over, or the own state does not follow
                    self._may_have_orphans = True
                    raise
            raise KafkaError("the cluster's state kept changing underneath; try again")

    async def _tidy_up(self) -> None:
        """After a failure, remove what the change that failed has written."""
        if self._may_have_orphans:
            await self._feed.wait_for_revision(self._writer.written_revision, OWN_WRITE_TIMEOUT_S)
            await self._remove_orphans()
            self._may_have_orphans = False

    async def _write(self, writes: Sequence[Write]) -> None:
        """Write, and return once the own state shows it."""
        revision = await self._writer.write(writes)
        await self._feed.wait_for_revision(revision, OWN_WRITE_TIMEOUT_S)

    async def _remove_orphans(self) -> None:
        orphans, orphan_shards = self._feed.orphans(), self._feed.orphan_shards()
        if orphans or orphan_shards:
            log.info(
                "removing what a change that was cut short left",
                partitions=len(orphans),
                shards=len(orphan_shards),
            )
            await self._write(
                [
                    *(self._partition_deletion(partition) for partition in orphans),
                    *(self._shard_deletion(shard) for shard in orphan_shards),
                ]
            )

    def _allows_unclean(self, topic: Topic) -> bool:
        own = topic.configs.get("unclean.leader.election.enable")
        return self._unclean_election_default if own is None else own.strip().lower() == "true"

    def _creation(self, topic: Topic) -> list[Write]:
        return [*(self._partition_write(partition) for partition in topic.partitions), self._topic_write(topic)]

    def _deletion(self, topic: Topic) -> list[Write]:
        shards = self._feed.state.shards.values() if topic.name == GROUP_TOPIC else ()
        return [
            Write(key=self._keys.topic(topic.name), value=None, replaces=topic.mod_revision),
            *(self._partition_deletion(partition) for partition in topic.partitions),
            *(self._shard_deletion(shard) for shard in shards),
        ]

    def _topic_write(self, topic: Topic) -> Write:
        record = TopicRecord(id=topic.id, partition_count=len(topic.partitions), configs=topic.configs)
        return Write(key=self._keys.topic(topic.name), value=codec.encode_topic(record), replaces=topic.mod_revision)

    def _partition_write(self, partition: PartitionState) -> Write:
        return Write(
            key=self._keys.partition(partition.topic_id, partition.index),
            value=codec.encode_partition(partition),
            replaces=partition.partition_epoch,
        )

    def _partition_deletion(self, partition: PartitionState) -> Write:
        return Write(
            key=self._keys.partition(partition.topic_id, partition.index),
            value=None,
            replaces=partition.partition_epoch,
        )

    def _shard_write(self, shard: Shard) -> Write:
        return Write(
            key=self._keys.shard(GROUP_TOPIC, shard.index),
            value=codec.encode_shard(shard),
            replaces=shard.revision,
        )

    def _shard_deletion(self, shard: Shard) -> Write:
        return Write(key=self._keys.shard(GROUP_TOPIC, shard.index), value=None, replaces=shard.revision)

    async def _config_write(self, plan: ConfigPlan) -> Write | None:
        """Return what stores a plan's settings, or None if there is nothing to store."""
        if plan.configs is None:
            return None
        state = self._feed.state
        match plan.target:
            case TopicTarget(name):
                topic = state.topics[name]
                if topic.configs == plan.configs:
                    return None
                return self._topic_write(replace(topic, configs=plan.configs))
            case BrokerTarget(broker_id):
                if state.broker_configs.get(broker_id, {}) == plan.configs:
                    return None
                key = self._keys.broker_config(broker_id)
                found = await self._etcd.read(key)
                replaces = found.mod_revision if found else ABSENT
                return Write(key=key, value=codec.encode_broker_config(plan.configs), replaces=replaces)
            case None:
                return None
