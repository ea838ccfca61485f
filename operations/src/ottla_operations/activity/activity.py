"""What happened between two looks at a cluster: rates and lags, the most active first. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ottla_core.topic_partition import TopicPartition
from ottla_operations.activity.sample import Sample
from ottla_operations.groups.inspection import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerActivity:
    """A broker that is in service.

    Attributes:
        leads, replicas: partitions that it leads, and has.
        behind: replicas here that are not in sync.
        written_bytes_per_s: growth of its logs; retention and compaction make them smaller.
        log_bytes: of all its replicas; None if it does not answer.
        free_bytes: in the log directory with the least room; None where it is not known.
    """

    broker: int
    rack: str | None
    leads: int
    replicas: int
    behind: int
    written_bytes_per_s: float
    log_bytes: int | None
    free_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicActivity:
    """A topic.

    Attributes:
        records_per_s: that were produced.
        log_bytes: of one copy of each partition, the largest.
        under_replicated, offline: partitions without a copy in sync, and without a leader.
    """

    topic: str
    partitions: int
    records_per_s: float
    log_bytes: int
    under_replicated: int
    offline: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupActivity:
    """A group.

    Attributes:
        records_per_s: that it has committed.
        lag: records that it has not read; None if the end of a partition is not known.
        seconds_left: until it has read all at these rates; None if it never will, or that is not known.
    """

    group: str
    state: str
    records_per_s: float
    lag: int | None
    seconds_left: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """All of it."""

    cluster_id: str
    brokers: tuple[BrokerActivity, ...]
    topics: tuple[TopicActivity, ...]
    groups: tuple[GroupActivity, ...]
    not_seen: tuple[str, ...]

    def to_document(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return asdict(self)


def activity(former: Sample, new: Sample) -> Activity:
    """Return what happened between two looks."""
    took_s = max(new.at_s - former.at_s, 1e-3)
    return Activity(
        cluster_id=new.view.cluster_id,
        brokers=tuple(_brokers(former, new, took_s)),
        topics=tuple(sorted(_topics(former, new, took_s), key=lambda each: (-each.records_per_s, each.topic))),
        groups=tuple(sorted(_groups(former, new, took_s), key=lambda each: (-(each.lag or 0), each.group))),
        not_seen=tuple(new.not_seen),
    )


def _brokers(former: Sample, new: Sample, took_s: float) -> Iterable[BrokerActivity]:
    partitions = new.view.partitions.values()
    for number, broker in sorted(new.view.brokers.items()):
        size, before = _size(new, number), _size(former, number)
        room = [each.free_bytes for each in new.directories.get(number, ()) if each.free_bytes >= 0]
        grown = 0 if size is None or before is None else max(0, size - before)
        yield BrokerActivity(
            broker=number,
            rack=broker.rack,
            leads=sum(each.leader == number for each in partitions),
            replicas=sum(number in each.replicas for each in partitions),
            behind=sum(number in each.replicas and number not in each.in_sync for each in partitions),
            written_bytes_per_s=grown / took_s,
            log_bytes=size,
            free_bytes=min(room) if room else None,
        )


def _size(sample: Sample, broker: int) -> int | None:
    copies = sample.disks.get(broker)
    return None if copies is None else sum(each.size_bytes for each in copies)


def _topics(former: Sample, new: Sample, took_s: float) -> Iterable[TopicActivity]:
    sizes: dict[Partition, int] = {}
    for copies in new.disks.values():
        for each in copies:
            place = each.partition.topic, each.partition.partition
            sizes[place] = max(each.size_bytes, sizes.get(place, 0))
    by_topic: dict[str, list[Partition]] = {}
    for name in new.view.partitions:
        by_topic.setdefault(name.topic, []).append((name.topic, name.partition))
    for topic, places in by_topic.items():
        views = [new.view.partitions[TopicPartition(*place)] for place in places]
        yield TopicActivity(
            topic=topic,
            partitions=len(places),
            records_per_s=_grown(former.ends, new.ends, places) / took_s,
            log_bytes=sum(sizes.get(place, 0) for place in places),
            under_replicated=sum(each.is_under_replicated for each in views),
            offline=sum(each.leader is None for each in views),
        )


def _groups(former: Sample, new: Sample, took_s: float) -> Iterable[GroupActivity]:
    for name, group in new.groups.items():
        lag = _lag(new, group.committed)
        before = former.groups[name].committed if name in former.groups else group.committed
        read_per_s = _grown(before, group.committed, group.committed) / took_s
        produced_per_s = _grown(former.ends, new.ends, group.committed) / took_s
        gain_per_s = read_per_s - produced_per_s
        seconds_left = 0.0 if lag == 0 else lag / gain_per_s if lag is not None and gain_per_s > 0 else None
        yield GroupActivity(
            group=name, state=group.state, records_per_s=read_per_s, lag=lag, seconds_left=seconds_left
        )


def _lag(new: Sample, committed: Mapping[Partition, int]) -> int | None:
    """Return how many records a group has not read; partitions that are there no more count for nothing."""
    there = {place: offset for place, offset in committed.items() if TopicPartition(*place) in new.view.partitions}
    if not there.keys() <= new.ends.keys():
        return None
    return sum(max(0, new.ends[place] - offset) for place, offset in there.items())


def _grown(before: Mapping[Partition, int], after: Mapping[Partition, int], places: Iterable[Partition]) -> int:
    """Return by how many offsets partitions have grown; one that was not seen both times, or was cut, not at all."""
    return sum(max(0, after[each] - before[each]) for each in places if each in before and each in after)
