"""More or fewer replicas of partitions: which brokers get them, and which give them up. Pure.

A new replica goes to the broker that has the fewest, of those in the rack that suits best. The replica that goes is
one whose broker is away, else one that is not in sync, else one of the fullest rack and broker; the leader always
stays. Partitions that have as many as they should are left alone.
"""

from collections.abc import Iterable, Mapping

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import PartitionView, Replicas
from ottla_operations.cluster.placement import Placement


class TooFewBrokers(ValueError):
    """There are not as many brokers in service as there should be replicas; the message says how many there are."""


def plan_replication_factor(
    factor: int,
    chosen: Iterable[TopicPartition],
    racks: Mapping[int, str | None],
    partitions: Mapping[TopicPartition, PartitionView],
    sizes: Mapping[TopicPartition, int],
) -> dict[TopicPartition, Replicas]:
    """Return the new replicas of the chosen partitions that have more or fewer.

    Args:
        factor: how many replicas each shall have; at least 1.
        chosen: partitions that have a leader.
        racks: the brokers in service, each with its rack.
        partitions: all partitions.
        sizes: bytes that one replica takes; 0 for a partition that is not named.

    Raises:
        TooFewBrokers: there are fewer brokers than that.
    """
    assert factor >= 1
    if factor > len(racks):
        raise TooFewBrokers(f"{factor} replicas need {factor} brokers, and {len(racks)} are in service")
    replicas = {name: partition.replicas for name, partition in partitions.items()}
    placement = Placement(racks, replicas, sizes)
    for name in sorted(chosen, key=lambda each: (-sizes.get(each, 0), each)):
        while len(placement.replicas[name]) > factor:
            placement.remove(name, _best_to_remove(placement, partitions[name]))
        while len(placement.replicas[name]) < factor:
            placement.add(name, _best_to_add(placement, name))
    return placement.changes(replicas)


def _best_to_add(placement: Placement, name: TopicPartition) -> int:
    return min(
        (broker for broker in placement.racks if broker not in placement.replicas[name]),
        key=lambda broker: (
            placement.neighbours(name, broker),
            placement.replica_counts[broker],
            placement.topic_counts[name.topic, broker],
            placement.disk_bytes[broker],
            broker,
        ),
    )


def _best_to_remove(placement: Placement, partition: PartitionView) -> int:
    def worth(broker: int) -> tuple[bool, bool, int, int, int]:
        if broker not in placement.racks:
            return (False, False, 0, 0, broker)
        in_sync = broker in partition.in_sync
        return (
            True, in_sync, -placement.neighbours(partition.name, broker), -placement.replica_counts[broker], -broker,
        )  # fmt: skip

    return min((each for each in placement.replicas[partition.name] if each != partition.leader), key=worth)
