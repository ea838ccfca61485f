"""What `ottla cluster describe` tells, as JSON values. Pure."""

from collections.abc import Mapping
from typing import Any

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import ClusterView, Disks, Move, PartitionView


def describe_cluster(
    view: ClusterView,
    disks: Disks,
    moves: Mapping[TopicPartition, Move],
    controller: int | None,
    controllers: tuple[int, ...],
) -> dict[str, Any]:
    """Return brokers with what they have, and the partitions that are not as they should be."""
    partitions = view.partitions.values()
    return {
        "cluster_id": view.cluster_id,
        "controller": controller,
        "controllers": list(controllers),
        "topics": len(view.topics),
        "partitions": len(view.partitions),
        "brokers": [_broker(view, disks, broker) for broker in _all_brokers(view)],
        "offline": [_partition(each) for each in partitions if each.leader is None],
        "under_replicated": [
            _partition(each) for each in partitions if each.leader is not None and each.is_under_replicated
        ],
        "not_led_by_preferred": sum(
            each.leader is not None and each.leader != each.replicas[0] for each in partitions if each.replicas
        ),
        "moving": [describe_move(name, move) for name, move in sorted(moves.items())],
    }


def describe_move(name: TopicPartition, move: Move) -> dict[str, Any]:
    """Return a reassignment that is going on, as JSON values."""
    return {
        "topic": name.topic,
        "partition": name.partition,
        "replicas": list(move.replicas),
        "adding": list(move.adding),
        "removing": list(move.removing),
    }


def _all_brokers(view: ClusterView) -> list[int]:
    """Return the brokers in service and those that partitions count on."""
    return sorted({*view.brokers, *(broker for each in view.partitions.values() for broker in each.replicas)})


def _broker(view: ClusterView, disks: Disks, broker: int) -> dict[str, Any]:
    known = view.brokers.get(broker)
    held = [each for each in view.partitions.values() if broker in each.replicas]
    return {
        "broker": broker,
        "address": None if known is None else f"{known.host}:{known.port}",
        "rack": None if known is None else known.rack,
        "in_service": known is not None,
        "replicas": len(held),
        "in_sync": sum(broker in each.in_sync for each in held),
        "leaders": sum(each.leader == broker for each in held),
        "preferred_leaders": sum(each.replicas[0] == broker for each in held),
        "disk_bytes": sum(each.size_bytes for each in disks[broker]) if broker in disks else None,
    }


def _partition(partition: PartitionView) -> dict[str, Any]:
    return {
        "topic": partition.name.topic,
        "partition": partition.name.partition,
        "leader": partition.leader,
        "replicas": list(partition.replicas),
        "in_sync": list(partition.in_sync),
    }
