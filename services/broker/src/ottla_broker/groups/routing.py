"""Who answers for a group, by the cluster state: its shard, the coordinator that owns that, and the broker to ask.

Any broker passes a request on to the owner. Nevertheless each group has one broker that FindCoordinator names and
that lists it, so that load is spread and a client that asks all brokers for their groups hears of each once.

Pure.
"""

from collections.abc import Iterable
from hashlib import blake2b

from ottla_broker.groups.errors import NotCoordinator
from ottla_core.cluster.state.model import ClusterState, Member
from ottla_core.shards import GROUP_TOPIC, shard_named, shard_of
from ottla_core.topic_partition import TopicPartition


def shard_for(state: ClusterState, group_id: str) -> TopicPartition:
    """Return the shard that keeps a group.

    Raises:
        NotCoordinator: `__consumer_offsets` does not exist.
    """
    topic = state.topics.get(GROUP_TOPIC)
    if topic is None:
        raise NotCoordinator(f"there is no topic {GROUP_TOPIC} yet")
    return shard_of(group_id, len(topic.partitions))


def owner_of(state: ClusterState, shard: TopicPartition) -> Member:
    """Return the live coordinator that owns a shard.

    Raises:
        NotCoordinator: nobody owns it, or its owner's registration is gone.
    """
    assigned = state.shards.get(shard)
    owner = None if assigned is None else state.coordinators.get(assigned.coordinator)
    if assigned is None or owner is None or owner.epoch != assigned.coordinator_epoch:
        raise NotCoordinator(f"no live coordinator owns {shard}")
    return owner


def owners(state: ClusterState) -> list[Member]:
    """Return the coordinators that own shards of groups, each once; nobody if there are no shards.

    Raises:
        NotCoordinator: a shard has no live owner.
    """
    by_id = {owner.id: owner for owner in (owner_of(state, shard) for shard in shards(state))}
    return list(by_id.values())


def shards(state: ClusterState) -> list[TopicPartition]:
    """Return all shards of groups; none before there are groups."""
    topic = state.topics.get(GROUP_TOPIC)
    return [] if topic is None else [shard_named(GROUP_TOPIC, each.index) for each in topic.partitions]


def broker_for(group_id: str, broker_ids: Iterable[int]) -> int | None:
    """Return the broker that clients of a group are sent to, or None if there is no broker.

    The one with the highest hash of group and broker: a broker that comes or goes moves no group but its own.
    """
    return max(broker_ids, key=lambda broker_id: (_weight(group_id, broker_id), broker_id), default=None)


def _weight(group_id: str, broker_id: int) -> bytes:
    salt = (broker_id & 0xFFFFFFFF).to_bytes(blake2b.SALT_SIZE)
    return blake2b(group_id.encode("utf-8", "surrogatepass"), digest_size=8, salt=salt).digest()
