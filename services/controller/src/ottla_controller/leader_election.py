"""Who leads a partition; pure.

A broker leads under the registration that it was elected with. So a partition needs an election when its leader is
not registered any more, or is registered under another broker epoch than at its election (it was away, and back
before anybody looked). The leader epoch grows with each election.

- Leadership goes to the first in-sync replica that is live, in the order of the replicas. One that has been
  registered without a break is preferred over the former leader come back, which may have lost what it had not
  yet written to disk. The new in-sync set is what of the old one is live, without such a former leader.
- If none is live the partition has no leader and its in-sync set stays: only these replicas have every record.
- If none is live and the topic allows unclean election, any live replica leads, alone in the in-sync set.

Source of the rules: Kafka's PartitionChangeBuilder and ReplicationControlManager.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from uuid import UUID

from ottla_core.cluster.model import (
    NO_EPOCH,
    NO_LEADER,
    ClusterState,
    Member,
    PartitionState,
    Topic,
)

Brokers = Mapping[int, Member]


def first_state(topic_id: UUID, index: int, replicas: tuple[int, ...], brokers: Brokers) -> PartitionState:
    """Return a new partition's state: the first live replica leads, alone in the in-sync set.

    A replica is in sync when it has fetched what the leader has. One that has fetched nothing must not count,
    though the log is still empty: it would be elected later on, without the records acknowledged meanwhile.
    At least one replica must be live.
    """
    leader = next(broker_id for broker_id in replicas if broker_id in brokers)
    return PartitionState(
        topic_id=topic_id,
        index=index,
        replicas=replicas,
        isr=(leader,),
        leader=leader,
        leader_epoch=0,
        leader_broker_epoch=brokers[leader].epoch,
    )


def elections(
    topics: Iterable[Topic], brokers: Brokers, *, allows_unclean: Callable[[Topic], bool]
) -> list[PartitionState]:
    """Return the new state of every partition whose leader has to change.

    The states keep the `partition_epoch` of those they replace, for compare-and-set.
    """
    changed: list[PartitionState] = []
    for topic in topics:
        for partition in topic.partitions:
            if not has_valid_leader(partition, brokers):
                elected = elect(partition, brokers, unclean=allows_unclean(topic))
                if elected is not None:
                    changed.append(elected)
    return changed


def topics_to_examine(former: ClusterState | None, new: ClusterState) -> Iterable[Topic]:
    """Return the topics whose leaders a change of state can have made invalid."""
    if former is None or former.brokers is not new.brokers:
        return new.topics.values()
    if former.topics is new.topics:
        return ()
    return [topic for name, topic in new.topics.items() if former.topics.get(name) is not topic]


def has_valid_leader(partition: PartitionState, brokers: Brokers) -> bool:
    """Return whether the leader is live under the registration that it was elected with."""
    leader = brokers.get(partition.leader)
    return leader is not None and leader.epoch == partition.leader_broker_epoch


def elect(partition: PartitionState, brokers: Brokers, *, unclean: bool) -> PartitionState | None:
    """Return the partition under a new leader, or without one; None if it stays without."""
    isr = tuple(broker_id for broker_id in partition.isr if broker_id in brokers)
    steady = tuple(broker_id for broker_id in isr if broker_id != partition.leader)
    in_sync = steady or isr
    if not in_sync and unclean:
        in_sync = tuple(broker_id for broker_id in partition.replicas if broker_id in brokers)[:1]
    if not in_sync:
        return None if partition.leader == NO_LEADER else _without_leader(partition)
    leader = next(broker_id for broker_id in partition.replicas if broker_id in in_sync)
    return replace(
        partition,
        isr=in_sync,
        leader=leader,
        leader_epoch=partition.leader_epoch + 1,
        leader_broker_epoch=brokers[leader].epoch,
    )


def _without_leader(partition: PartitionState) -> PartitionState:
    return replace(
        partition,
        leader=NO_LEADER,
        leader_epoch=partition.leader_epoch + 1,
        leader_broker_epoch=NO_EPOCH,
    )
