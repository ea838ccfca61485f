"""The shards that this process owns, as the cluster state and its own registration say.

A shard is ours if the controller assigned it to us under the registration that we hold now, and our lease has not
run out by our own clock. A new producer id or epoch is a new ownership: what was in memory goes, and the shard is
fenced and loaded anew. A shard whose log has told us of a later owner stays here as ended until the cluster state
catches up.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Generic, Protocol

import structlog

from ottla_core.cluster.state.model import NO_EPOCH, ClusterState, Shard
from ottla_core.topic_partition import TopicPartition
from ottla_group_coordinator.runtime.shard_batches import ShardProducer
from ottla_group_coordinator.runtime.shard_context import Machine
from ottla_group_coordinator.runtime.shard_runtime import ShardRuntime

FINISH_TIMEOUT_S = 2.0
"""How long a stop waits for what is being stored."""

log = structlog.get_logger("shards")


class Place(Protocol):
    """This process's registration in the cluster: a `Membership`."""

    @property
    def epoch(self) -> int:
        """The epoch of the registration, or `NO_EPOCH` once its lease may have run out."""


class ShardTable(Generic[Machine]):
    """All owned shards of one kind, that is, of one topic.

    Args:
        topic: of which these are partitions.
        coordinator_id: this process's.
        place: its registration.
        make_runtime: returns the runtime of a shard that is ours from now on, not yet started.
    """

    def __init__(
        self, topic: str, coordinator_id: int, place: Place, make_runtime: Callable[[Shard], ShardRuntime[Machine]]
    ) -> None:
        self.topic = topic
        self._coordinator_id = coordinator_id
        self._place = place
        self._make_runtime = make_runtime
        self._shards: dict[TopicPartition, ShardRuntime[Machine]] = {}
        self._is_closed = False

    @property
    def owned(self) -> Collection[ShardRuntime[Machine]]:
        """The shards that were assigned to us."""
        return self._shards.values()

    def get(self, shard: TopicPartition) -> ShardRuntime[Machine] | None:
        """Return a shard, or None if it is not ours."""
        return self._shards.get(shard)

    def reconcile(self, state: ClusterState) -> None:
        """Give up what is not ours any more, and take what has become ours."""
        if self._is_closed:
            return
        epoch = self._place.epoch
        ours = {
            name: shard
            for name, shard in state.shards.items()
            if name.topic == self.topic
            and (shard.coordinator, shard.coordinator_epoch) == (self._coordinator_id, epoch)
            and epoch != NO_EPOCH
        }
        for name, runtime in tuple(self._shards.items()):
            shard = ours.get(name)
            if shard is None or producer_of(shard) != runtime.log.producer:
                log.info("shard is not ours any more", shard=str(name))
                del self._shards[name]
                runtime.end()
        for name, shard in ours.items():
            if name not in self._shards:
                log.info("shard is ours", shard=str(name), producer=producer_of(shard)._asdict())
                self._shards[name] = self._make_runtime(shard)
                self._shards[name].start()

    def on_cluster_state(self, former: ClusterState, state: ClusterState) -> None:
        """Follow the cluster state."""
        if former.shards is not state.shards:
            self.reconcile(state)
        if (
            former.topics is state.topics
            and former.group_configs is state.group_configs
            and former.features is state.features
        ):
            return
        has_leaders_changed = former.topics.get(self.topic) is not state.topics.get(self.topic)
        for runtime in tuple(self._shards.values()):
            runtime.on_cluster_state(state)
            if has_leaders_changed:
                runtime.log.on_leaders()

    async def close(self) -> None:
        """Answer nothing new, finish what is being stored, and end."""
        self._is_closed = True
        shards = tuple(self._shards.values())
        await asyncio.gather(*(runtime.finish(FINISH_TIMEOUT_S) for runtime in shards))
        await asyncio.gather(*(runtime.wait_ended() for runtime in shards))


def producer_of(shard: Shard) -> ShardProducer:
    """Return what the owner of a shard writes as."""
    return ShardProducer(shard.producer_id, shard.producer_epoch)
