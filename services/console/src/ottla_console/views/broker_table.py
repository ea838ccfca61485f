"""The brokers with their load, and what one of them has. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ottla_core.topic_partition import TopicPartition
from ottla_operations.activity.activity import Activity
from ottla_operations.cluster.cluster_view import ClusterView, ReplicaOnDisk


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """A broker.

    Attributes:
        address: as clients reach it; None for one that is not in service, but that partitions count on.
        preferred: partitions that it would lead if each were led by its first replica.
        behind: replicas here that are not in sync.
        written_bytes_per_s, log_bytes, free_bytes: None until they were looked at, or where it does not tell.
    """

    broker: int
    address: str | None
    rack: str | None
    leaders: int
    preferred: int
    replicas: int
    behind: int
    written_bytes_per_s: float | None
    log_bytes: int | None
    free_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRow:
    """A replica that a broker has.

    Attributes:
        log_bytes, behind: its size, and by how many offsets it is behind; None where not known.
    """

    name: TopicPartition
    leads: bool
    is_preferred: bool
    in_sync: bool
    log_bytes: int | None
    behind: int | None


def broker_rows(view: ClusterView, found: Activity | None) -> list[BrokerRow]:
    """Return the brokers in service and those that partitions count on, by id."""
    seen = {} if found is None else {each.broker: each for each in found.brokers}
    partitions = view.partitions.values()
    leaders = Counter(each.leader for each in partitions)
    preferred = Counter(each.replicas[0] for each in partitions if each.replicas)
    replicas = Counter(broker for each in partitions for broker in each.replicas)
    behind = Counter(broker for each in partitions for broker in each.replicas if broker not in each.in_sync)
    rows = []
    for broker in sorted({*view.brokers, *replicas}):
        known, active = view.brokers.get(broker), seen.get(broker)
        rows.append(
            BrokerRow(
                broker=broker,
                address=None if known is None else f"{known.host}:{known.port}",
                rack=None if known is None else known.rack,
                leaders=leaders[broker],
                preferred=preferred[broker],
                replicas=replicas[broker],
                behind=behind[broker],
                written_bytes_per_s=None if active is None else active.written_bytes_per_s,
                log_bytes=None if active is None else active.log_bytes,
                free_bytes=None if active is None else active.free_bytes,
            )
        )
    return rows


def held_rows(view: ClusterView, broker: int, copies: Sequence[ReplicaOnDisk] | None, words: str) -> list[HeldRow]:
    """Return the replicas of a broker whose topics have all the words, the largest first, then by name.

    Args:
        view: of the cluster.
        broker: whose replicas are wanted.
        copies: what it has on its disks; None if it does not answer.
        words: to search for, whatever their case.
    """
    wanted = words.lower().split()
    on_disk = {each.partition: each for each in copies or () if not each.is_future}
    rows = [
        HeldRow(
            name=name,
            leads=each.leader == broker,
            is_preferred=each.replicas[0] == broker,
            in_sync=broker in each.in_sync,
            log_bytes=on_disk[name].size_bytes if name in on_disk else None,
            behind=on_disk[name].behind if name in on_disk else None,
        )
        for name, each in view.partitions.items()
        if broker in each.replicas and all(word in name.topic.lower() for word in wanted)
    ]
    return sorted(rows, key=lambda row: (-(row.log_bytes or 0), row.name))
