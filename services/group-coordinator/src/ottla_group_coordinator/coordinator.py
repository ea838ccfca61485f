"""The coordinator as a whole: cluster state and registration on one side, brokers' streams on the other.

Which shards are ours follows from the cluster state and from our registration, so both are listened to. Where a
shard's log is follows from the cluster state too: at the broker that leads the partition, by the stream that it has
opened.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol
from uuid import uuid4

from ottla_core.clock import Clock, SystemClock
from ottla_core.cluster.state.model import NO_LEADER, ClusterState, Shard
from ottla_core.cluster.view.feed import Listener
from ottla_core.shards import GROUP_TOPIC, TRANSACTION_TOPIC
from ottla_core.topic_partition import TopicPartition
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_group_coordinator.lag.lag_watch import LagWatch
from ottla_group_coordinator.markers.marker_sender import MarkerSender
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
from ottla_group_coordinator.transaction_routing import TransactionRouter
from ottla_group_coordinator.transactions.counts import TransactionCounts
from ottla_group_coordinator.transactions.records import TRANSACTION_RECORDS
from ottla_group_coordinator.transactions.shard import TransactionShard
from ottla_proto.gen.ottla import group_relay_pb2 as pb

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
        shards: the owned shards of groups.
        transaction_shards: the owned shards of transactions.
        markers: what ends transactions in their partitions.
        service: what brokers call.
        counts: for metrics.
        rebalances: likewise.
        transactions_ended: likewise.
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
        self._transaction_settings = config.transaction_settings()
        self.counts = CoordinatorCounts()
        self.rebalances = RebalanceCounts()
        self.transactions_ended = TransactionCounts()
        self.service = GroupRelayService(self._take)
        self.markers = MarkerSender(
            state=lambda: feed.state,
            stream_of=self.service.stream_of,
            any_stream=self.service.any_stream,
            unknown_topic_grace_s=config.view_age_max_ms / 1000,
        )
        context = partial(
            ShardContext,
            awake_clock=self.awake_clock,
            clock=clock,
            counts=self.counts,
            load_permits=asyncio.Semaphore(LOADS_AT_ONCE),
            commit_timeout_s=config.offsets_commit_timeout_ms / 1000,
            on_sequence_lost=lambda: register_anew(None),
            on_epoch_seen=register_anew,
        )
        self._groups: ShardContext[GroupShard] = context(
            make_shard=self._make_shard,
            record_format=GROUP_RECORDS,
            count_stored=self.rebalances.count,
            load_bytes_max=config.offsets_load_buffer_size,
            batch_bytes_max=self._settings.batch_bytes_max,
        )
        self._transactions: ShardContext[TransactionShard] = context(
            make_shard=self._make_transaction_shard,
            record_format=TRANSACTION_RECORDS,
            count_stored=self.transactions_ended.count,
            load_bytes_max=config.transaction_state_log_load_buffer_size,
            batch_bytes_max=self._transaction_settings.batch_bytes_max,
            carry_out=self.markers.carry_out,
            on_unloaded=self.markers.forget,
        )
        self.shards = ShardTable(GROUP_TOPIC, config.node_id, place, self._runtime_of_groups)
        self.transaction_shards = ShardTable(TRANSACTION_TOPIC, config.node_id, place, self._runtime_of_transactions)
        self._router = RequestRouter(self.shards, lambda: feed.state.revision, self.counts)
        self._transaction_router = TransactionRouter(self.transaction_shards, self.counts)
        feed.subscribe(self._on_cluster_state)

    def on_place_changed(self) -> None:
        """Take or give up shards after a registration or the loss of one."""
        self.shards.reconcile(self._feed.state)
        self.transaction_shards.reconcile(self._feed.state)

    def lag_watch(self) -> LagWatch:
        """Return what looks how far the groups here are behind."""
        return LagWatch(lambda: self.shards.owned, lambda: self._feed.state, self.service.stream_of, self._clock)

    async def close_shards(self) -> None:
        """Answer nothing new; store and answer what is on its way."""
        await asyncio.gather(self.shards.close(), self.transaction_shards.close())
        self.markers.close()

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
        self.transaction_shards.on_cluster_state(former, state)
        self.markers.on_cluster_state(former, state)
        self._router.awaiting_state.on_revision(
            state.revision
        )  # behind the shards, which have the state for their next round

    def _make_shard(self) -> GroupShard:
        return GroupShard(settings=self._settings, cluster_state=self._feed.state, draw_uuid=uuid4)

    def _make_transaction_shard(self) -> TransactionShard:
        return TransactionShard(settings=self._transaction_settings, cluster_state=self._feed.state)

    def _runtime_of_groups(self, shard: Shard) -> ShardRuntime[GroupShard]:
        return ShardRuntime(self._log_of(shard), self._groups)

    def _runtime_of_transactions(self, shard: Shard) -> ShardRuntime[TransactionShard]:
        return ShardRuntime(self._log_of(shard), self._transactions)

    def _log_of(self, shard: Shard) -> RemoteShardLog:
        return RemoteShardLog(
            shard.topic_partition,
            producer_of(shard),
            is_owner=lambda: self._place.epoch == shard.coordinator_epoch,
            leader=lambda: self._leader(shard.topic_partition),
        )

    def _take(self, stream: RelayStream, frame_id: int, relayed: pb.GroupRequest) -> None:
        """Hand a request to the router of the kind of shard that it is for."""
        router = self._transaction_router if relayed.topic == TRANSACTION_TOPIC else self._router
        router.take(stream, frame_id, relayed)

    def _leader(self, shard: TopicPartition) -> RelayStream | None:
        """Return the stream of the broker that leads a shard's partition."""
        topic = self._feed.state.topics.get(shard.topic)
        if topic is None or shard.partition >= len(topic.partitions):
            return None
        leader = topic.partitions[shard.partition].leader
        return None if leader == NO_LEADER else self.service.stream_of(leader)
