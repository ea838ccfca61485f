"""What the leading controller does during its term.

Topics, settings, producer ids and the owners of shards are decided here (by `topics`, `configs`, `shard_assignment`);
what concerns replicas, in `replica_controller`. Partitions are written before the topic that counts them and deleted
after it, shards likewise; see `change_sequence` for what becomes of a change that is cut short.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

import structlog

from ottla_controller import configs, topics
from ottla_controller.acl_controller import AclController
from ottla_controller.change_encoder import ChangeEncoder
from ottla_controller.change_sequence import ChangeSequence
from ottla_controller.configs import BrokerTarget, ClientMetricsTarget, ConfigPlan, GroupTarget, TopicTarget
from ottla_controller.feature_controller import FeatureController
from ottla_controller.fenced_writer import FencedWriter, Write
from ottla_controller.link_controller import LinkController
from ottla_controller.login_controller import LoginController
from ottla_controller.partition_change import TopicRules
from ottla_controller.priority_lock import Urgency
from ottla_controller.producer_ids import next_block
from ottla_controller.quota_controller import QuotaController
from ottla_controller.replica_controller import ReplicaController
from ottla_controller.shard_assignment import (
    NO_PRODUCER_ID,
    needs_examination,
    reassigned_shards,
    sharded_topics,
    with_producer_ids,
)
from ottla_controller.topic_rules import partitions_to_clear
from ottla_controller.topics import TopicDefaults
from ottla_core.cluster.controller_rpc.controller_api import (
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
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.etcd.operations import ABSENT
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import NO_COORDINATOR, ClusterState, Shard, Topic
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.dynamic_broker_config import KEPT
from ottla_core.errors import StaleBrokerEpoch
from ottla_core.group_config import ConsumerGroupLimits
from ottla_core.shards import SHARDED_TOPICS
from ottla_core.slices import in_slices

log = structlog.get_logger("controller")


class ActiveController:
    """Decides and writes, for one term.

    `timeout_s` says how long a caller waits: what has not begun by then is not done any more.

    Attributes:
        replicas: the part that decides about replicas.
        links: the part that decides about links to other clusters.
        features: the part that decides about levels of features.
        acls: the part that decides about access control lists.
        quotas: the part that decides about clients' quotas.
        logins: the part that decides about users and delegation tokens.
    """

    def __init__(
        self,
        *,
        etcd: EtcdClient,
        feed: ClusterStateFeed,
        writer: FencedWriter,
        key_space: KeySpace,
        defaults: TopicDefaults,
        default_rules: TopicRules,
        group_limits: ConsumerGroupLimits,
    ) -> None:
        self._etcd = etcd
        self._keys = key_space
        self._writes = ChangeEncoder(key_space)
        self._changes = ChangeSequence(feed, writer, self._writes)
        self.replicas = ReplicaController(self._changes, self._writes, default_rules)
        self.links = LinkController(self._changes, self._writes, defaults)
        self.features = FeatureController(self._changes, key_space)
        self.acls = AclController(self._changes, key_space)
        self.quotas = QuotaController(self._changes, key_space)
        self.logins = LoginController(self._changes, key_space)
        self._defaults = defaults
        self._group_limits = group_limits
        self._shards_examined: ClusterState | None = None
        self._own_producer_ids: deque[int] = deque()

    async def create_topics(
        self, requested: Sequence[NewTopic], *, validate_only: bool, timeout_s: float | None = None
    ) -> tuple[list[CreatedTopic], int]:
        """Create topics; return the results and the revision that contains them."""

        async def change() -> tuple[list[CreatedTopic], int]:
            plans = await in_slices(topics.plan_creations(requested, self._changes.state, self._defaults))
            created = [plan.topic for plan in plans if plan.topic is not None]
            if not validate_only:
                await self._changes.write(
                    await in_slices(write for topic in created for write in self._writes.creation(topic))
                )
                for topic in created:
                    log.info("topic created", topic=topic.name, partitions=len(topic.partitions))
            return [plan.result for plan in plans], self._changes.state.revision

        return await self._changes.make(change, timeout_s=timeout_s)

    async def delete_topics(
        self, requested: Sequence[TopicReference], *, timeout_s: float | None = None
    ) -> tuple[list[DeletedTopic], int]:
        """Delete topics; return the results and the revision that contains them."""

        async def change() -> tuple[list[DeletedTopic], int]:
            plans = await in_slices(topics.plan_deletions(requested, self._changes.state))
            deleted = [plan.topic for plan in plans if plan.topic is not None]
            await self._changes.write(await in_slices(write for topic in deleted for write in self._deletion(topic)))
            for topic in deleted:
                log.info("topic deleted", topic=topic.name)
            return [plan.result for plan in plans], self._changes.state.revision

        return await self._changes.make(change, timeout_s=timeout_s)

    async def create_partitions(
        self, requested: Sequence[NewPartitions], *, validate_only: bool, timeout_s: float | None = None
    ) -> tuple[list[GrownTopic], int]:
        """Add partitions; return the results and the revision that contains them."""

        async def change() -> tuple[list[GrownTopic], int]:
            plans = await in_slices(topics.plan_growths(requested, self._changes.state))
            if not validate_only:
                writes: list[Write] = []
                for plan in plans:
                    if plan.topic is not None:
                        writes.extend(self._writes.partition(partition) for partition in plan.added)
                        writes.append(self._writes.topic(plan.topic))
                await self._changes.write(writes)
            return [plan.result for plan in plans], self._changes.state.revision

        return await self._changes.make(change, timeout_s=timeout_s)

    async def alter_configs(
        self,
        requested: Sequence[ConfigResourceChange],
        *,
        replace_all: bool,
        validate_only: bool,
        timeout_s: float | None = None,
    ) -> tuple[list[AlteredResource], int]:
        """Change settings; return the results and the revision that contains them."""

        async def change() -> tuple[list[AlteredResource], int]:
            plans = configs.plan_config_changes(
                requested, self._changes.state, replace_all=replace_all, group_limits=self._group_limits
            )
            if not validate_only:
                state = self._changes.state
                cleared = {p: None for plan in plans for p in partitions_to_clear(plan, state)}
                planned = [await self._config_write(plan) for plan in plans]
                await self._changes.write(
                    [
                        *(self._writes.partition(partition) for partition in cleared),
                        *(write for write in planned if write is not None),
                    ]
                )
            return [plan.result for plan in plans], self._changes.state.revision

        return await self._changes.make(change, timeout_s=timeout_s)

    async def allocate_producer_ids(
        self, broker_id: int, broker_epoch: int, *, timeout_s: float | None = None
    ) -> ProducerIdBlock:
        """Return a block of producer ids for a broker.

        Raises:
            StaleBrokerEpoch: the broker is not registered under this epoch.
        """
        await self._changes.wait_for_revision(broker_epoch)

        async def change() -> ProducerIdBlock:
            broker = self._changes.state.brokers.get(broker_id)
            if broker is None or broker.epoch != broker_epoch:
                raise StaleBrokerEpoch(f"broker {broker_id} is not registered under epoch {broker_epoch}")
            return await self._take_producer_id_block()

        return await self._changes.make(change, timeout_s=timeout_s)

    async def begin_term(self) -> None:
        """Attend to what earlier terms left: half-made and half-deleted topics, partitions without a live leader.

        Shards without a live owner are left to `assign_shards`: they must not keep a term from beginning.
        """
        await self.replicas.elect_leaders()

    async def assign_shards(self) -> None:
        """Give every shard whose owner is gone a new one, and every coordinator its fair share."""
        if not needs_examination(self._shards_examined, self._changes.state):
            return

        async def change() -> None:
            state = self._changes.state
            # While a topic is incomplete it is not there, and its shards stay as they are.
            await self._write_shards(
                [
                    shard
                    for topic in sharded_topics(state)
                    for shard in reassigned_shards(
                        topic.name, len(topic.partitions), state.shards, state.coordinators
                    )
                ]
            )
            self._shards_examined = state

        await self._changes.make(change, urgency=Urgency.ELECTION)

    async def _write_shards(self, shards: Sequence[Shard]) -> None:
        if not shards:
            return
        new_ids = await self._draw_producer_ids(sum(shard.producer_id == NO_PRODUCER_ID for shard in shards))
        await self._changes.write([self._writes.shard(shard) for shard in with_producer_ids(shards, new_ids)])
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
        counted = codec.decode_next_producer_id(found.value) if found else 0
        block = next_block(counted, self._changes.state.highest_producer_id)
        value = codec.encode_next_producer_id(block.first + block.length)
        replaces = found.mod_revision if found else ABSENT
        await self._changes.write([Write(key=self._keys.producer_ids, value=value, replaces=replaces)])
        return block

    async def _config_write(self, plan: ConfigPlan) -> Write | None:
        """Return what stores a plan's settings, or None if there is nothing to store."""
        if plan.configs is None:
            return None
        state = self._changes.state
        match plan.target:
            case TopicTarget(name):
                topic = state.topics[name]
                if topic.configs == plan.configs:
                    return None
                return self._writes.topic(replace(topic, configs=plan.configs))
            case BrokerTarget(broker_id):
                if state.broker_configs.get(broker_id, {}) == plan.configs:
                    return None
                _note_kept(broker_id, state.broker_configs.get(broker_id, {}), plan.configs)
                return await self._replacement(self._keys.broker_config(broker_id), plan.configs)
            case GroupTarget(group_id):
                return await self._vanishing_write(
                    self._keys.group_config(group_id), state.group_configs.get(group_id, {}), plan.configs
                )
            case ClientMetricsTarget(name):
                return await self._vanishing_write(
                    self._keys.client_metrics_config(name), state.client_metrics_configs.get(name, {}), plan.configs
                )
            case None:
                return None

    async def _replacement(self, key: str, configs: Mapping[str, str]) -> Write:
        found = await self._etcd.read(key)
        replaces = found.mod_revision if found else ABSENT
        return Write(key=key, value=codec.encode_config(configs), replaces=replaces)

    async def _vanishing_write(
        self, key: str, present: Mapping[str, str], configs: Mapping[str, str]
    ) -> Write | None:
        """Return what stores settings of something that has no key while it has none."""
        if present == configs:
            return None
        write = await self._replacement(key, configs)
        return write if configs else replace(write, value=None)

    def _deletion(self, topic: Topic) -> list[Write]:
        shards = self._changes.state.shards.values() if topic.name in SHARDED_TOPICS else ()
        return self._writes.deletion(topic, (shard for shard in shards if shard.topic_partition.topic == topic.name))


def _note_kept(broker_id: int | None, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Say which settings are stored for Kafka's tools alone."""
    kept = sorted(name for name in KEPT if after.get(name) not in (None, before.get(name)))
    if kept:
        whose = "all brokers" if broker_id is None else f"broker {broker_id}"
        log.info("settings are kept, and nothing follows from them", of=whose, names=kept)
