"""The coordinator as a whole: cluster state and registration on one side, brokers' streams on the other.

Which shards are ours follows from the cluster state and from our registration, so both are listened to. Where a
shard's log is follows from the cluster state too: at the broker that leads the partition, by the stream that it has
opened.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol
from uuid import uuid4

from ottla_core.clock import Clock, SystemClock
from ottla_core.cluster.state.model import NO_LEADER, ClusterState, Shard
from ottla_core.cluster.view.feed import Listener
from ottla_core.topic_partition import TopicPartition
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_group_coordinator.lag.lag_watch import LagWatch
from ottla_group_coordinator.rebalance_counts import RebalanceCounts
from ottla_group_coordinator.records import GROUP_RECORDS
from ottla_group_coordinator.request_routing import RequestRouter
from ottla_group_coordinator.runtime.awake_clock import TICK_S, AwakeClock
from ottla_group_coordinator.runtime.coordinator_counts import CoordinatorCounts
from ottla_group_coordinator.runtime.relay_service import GroupRelayService
from ottla_group_coordinator.runtime.relay_stream import RelayStream
from ottla_group_coordinator.runtime.remote_shard_log import RemoteShardLog
from ottla_group_coordinator.runtime.shard_context import ShardContext
from ottla_group_coordinator.runtime.shard_runtime import ShardRuntime
from ottla_group_coordinator.runtime.shard_table import Place, ShardTable, producer_of
from ottla_group_coordinator.shard import GroupShard

LOADS_AT_ONCE = 4
"""Shards that are read at the same time; each holds two chunks of its log in memory."""

STREAMS_CLOSE_TIMEOUT_S = 1.0


class StateFeed(Protocol):
    """What is needed of a `ClusterStateFeed`."""

    @property
    def state(self) -> ClusterState:
        """The newest state."""

    def subscribe(self, listener: Listener) -> object:
        """Call the listener with every former and new state."""


class GroupCoordinator:
    """All parts of a coordinator but its registration and its sockets.

    Args:
        config: the settings.
        feed: the cluster state.
        place: our registration; `on_place_changed` is to be called when it has changed.
        register_anew: called when a shard cannot be continued under the present registration, with the producer epoch
            that the next ownership's must be later than, if the log has seen a later one than etcd knows.
        clock: for tests.

    Attributes:
        shards: the owned shards.
        service: what brokers call.
        counts: for metrics.
        rebalances: likewise.
        awake_clock: the time that this process was awake.
    """

    def __init__(
        self,
        *,
        config: GroupCoordinatorConfig,
        feed: StateFeed,
        place: Place,
        register_anew: Callable[[int | None], None],
        clock: Clock | None = None,
    ) -> None:
        clock = self._clock = clock or SystemClock()
        self.awake_clock = AwakeClock(clock)
        self._ticks = asyncio.get_running_loop().call_soon(self._tick)
        self._feed = feed
        self._place = place
        self._settings = config.group_settings()
        self.counts = CoordinatorCounts()
        self.rebalances = RebalanceCounts()
        self._surroundings = ShardContext(
            make_shard=self._make_shard,
            record_format=GROUP_RECORDS,
            count_stored=self.rebalances.count,
            awake_clock=self.awake_clock,
            clock=clock,
            counts=self.counts,
            load_permits=asyncio.Semaphore(LOADS_AT_ONCE),
            load_bytes_max=config.offsets_load_buffer_size,
            batch_bytes_max=self._settings.batch_bytes_max,
            commit_timeout_s=config.offsets_commit_timeout_ms / 1000,
            on_sequence_lost=lambda: register_anew(None),
            on_epoch_seen=register_anew,
        )
        self.shards = ShardTable(config.node_id, place, self._make_runtime)
        self._router = RequestRouter(self.shards, lambda: feed.state.revision, self.counts)
        self.service = GroupRelayService(self._router.take)
        feed.subscribe(self._on_cluster_state)

    def on_place_changed(self) -> None:
        """Take or give up shards after a registration or the loss of one."""
        self.shards.reconcile(self._feed.state)

    def lag_watch(self) -> LagWatch:
        """Return what looks how far the groups here are behind."""
        return LagWatch(lambda: self.shards.owned, lambda: self._feed.state, self.service.stream_of, self._clock)

    async def close_shards(self) -> None:
        """Answer nothing new; store and answer what is on its way."""
        await self.shards.close()

    async def close_streams(self) -> None:
        """End the brokers' streams."""
        self._ticks.cancel()
        self._router.awaiting_state.close()
        await self.service.close(STREAMS_CLOSE_TIMEOUT_S)

    def _tick(self) -> None:
        self.awake_clock.tick()
        self._ticks = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _on_cluster_state(self, former: ClusterState, state: ClusterState) -> None:
        if former.brokers is not state.brokers:
            self.service.on_cluster_state(state)
        self.shards.on_cluster_state(former, state)
        self._router.awaiting_state.on_revision(
            state.revision
        )  # behind the shards, which have the state for their next round

    def _make_shard(self) -> GroupShard:
        return GroupShard(settings=self._settings, cluster_state=self._feed.state, draw_uuid=uuid4)

    def _make_runtime(self, shard: Shard) -> ShardRuntime[GroupShard]:
        shard_log = RemoteShardLog(
            shard.topic_partition,
            producer_of(shard),
            is_owner=lambda: self._place.epoch == shard.coordinator_epoch,
            leader=lambda: self._leader(shard.topic_partition),
        )
        return ShardRuntime(shard_log, self._surroundings)

    def _leader(self, shard: TopicPartition) -> RelayStream | None:
        """Return the stream of the broker that leads a shard's partition."""
        topic = self._feed.state.topics.get(shard.topic)
        if topic is None or shard.partition >= len(topic.partitions):
            return None
        leader = topic.partitions[shard.partition].leader
        return None if leader == NO_LEADER else self.service.stream_of(leader)
