"""Who answers for a group or a transactional id, by the cluster state: its shard, that one's owner, a broker to ask.

Any broker passes a request on to the owner. Nevertheless each group and each transactional id has one broker that
FindCoordinator names and that lists it, so that load is spread and a client that asks all brokers hears of each once.

Pure.
"""

from collections.abc import Iterable
from hashlib import blake2b

from ottla_broker.groups.errors import NotCoordinator, TransactionalIdRefused
from ottla_core.cluster.state.model import ClusterState, Member
from ottla_core.shards import GROUP_TOPIC, TRANSACTION_TOPIC, shard_named, shard_of, transaction_shard_of
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


def transaction_shard_for(state: ClusterState, transactional_id: str) -> TopicPartition:
    """Return the shard that keeps the transactions of an id.

    Raises:
        TransactionalIdRefused: there are no transactions at the cluster's level of features.
        NotCoordinator: `__transaction_state` does not exist.
    """
    check_transactions(state)
    topic = state.topics.get(TRANSACTION_TOPIC)
    if topic is None:
        raise NotCoordinator(f"there is no topic {TRANSACTION_TOPIC} yet")
    return transaction_shard_of(transactional_id, len(topic.partitions))


def check_transactions(state: ClusterState) -> None:
    """See that every process of the cluster knows of transactions.

    Raises:
        TransactionalIdRefused: one may not.
    """
    if not state.features.has_transactions:
        raise TransactionalIdRefused(
            f"this cluster has no transactions: it is at level {state.features.level} of ottla.version; when all"
            " processes are of a release that has them, run `ottla cluster features upgrade`"
        )


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


def owners(state: ClusterState, topic: str = GROUP_TOPIC) -> list[Member]:
    """Return the coordinators that own shards of a topic, each once; nobody if there are no shards.

    Raises:
        NotCoordinator: a shard has no live owner.
    """
    by_id = {owner.id: owner for owner in (owner_of(state, shard) for shard in shards(state, topic))}
    return list(by_id.values())


def shards(state: ClusterState, topic: str = GROUP_TOPIC) -> list[TopicPartition]:
    """Return all shards of a topic; none before it exists."""
    known = state.topics.get(topic)
    return [] if known is None else [shard_named(topic, each.index) for each in known.partitions]


def broker_for(group_id: str, broker_ids: Iterable[int]) -> int | None:
    """Return the broker that clients of a group or a transactional id are sent to, or None if there is no broker.

    The one with the highest hash of name and broker: a broker that comes or goes moves no group but its own.
    """
    return max(broker_ids, key=lambda broker_id: (_weight(group_id, broker_id), broker_id), default=None)


def _weight(group_id: str, broker_id: int) -> bytes:
    salt = (broker_id & 0xFFFFFFFF).to_bytes(blake2b.SALT_SIZE)
    return blake2b(group_id.encode("utf-8", "surrogatepass"), digest_size=8, salt=salt).digest()
