"""A plan in figures: what it moves, and what each broker has before and after. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import ClusterView, Replicas, describe_replicas
from ottla_operations.cluster.reassignment_plan import plan_document


@dataclass(frozen=True, slots=True)
class BrokerShare:
    """What one broker has, or would have."""

    replicas: int = 0
    leaders: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """A plan in figures.

    Attributes:
        targets: the plan.
        copies: how many replicas are copied to another broker.
        copied_bytes: how many bytes that takes.
        leader_changes: how many partitions get another preferred leader.
        before: each broker's share now.
        after: each broker's share afterwards.
    """

    targets: Mapping[TopicPartition, Replicas]
    copies: int
    copied_bytes: int
    leader_changes: int
    before: Mapping[int, BrokerShare]
    after: Mapping[int, BrokerShare]

    def to_document(self) -> dict[str, Any]:
        """Return it as JSON values; ``plan`` is what `ottla cluster reassign` and Kafka's tool read."""
        return {
            "plan": plan_document(self.targets),
            "copies": self.copies,
            "copied_bytes": self.copied_bytes,
            "leader_changes": self.leader_changes,
            "brokers": [
                {"broker": broker, "before": asdict(share), "after": asdict(self.after[broker])}
                for broker, share in self.before.items()
            ],
        }


def summarize(
    view: ClusterView, targets: Mapping[TopicPartition, Replicas], sizes: Mapping[TopicPartition, int]
) -> PlanSummary:
    """Return a plan's summary."""
    before = {name: partition.replicas for name, partition in view.partitions.items()}
    after = {**before, **targets}
    added = {name: len(set(target) - set(before[name])) for name, target in targets.items()}
    brokers = sorted({*view.brokers, *(broker for replicas in after.values() for broker in replicas)})
    return PlanSummary(
        targets=targets,
        copies=sum(added.values()),
        copied_bytes=sum(sizes.get(name, 0) * count for name, count in added.items()),
        leader_changes=sum(target[0] != before[name][0] for name, target in targets.items()),
        before={broker: _share(broker, before, sizes) for broker in brokers},
        after={broker: _share(broker, after, sizes) for broker in brokers},
    )


def _share(
    broker: int, placement: Mapping[TopicPartition, Replicas], sizes: Mapping[TopicPartition, int]
) -> BrokerShare:
    held = [name for name, replicas in placement.items() if broker in replicas]
    return BrokerShare(
        replicas=len(held),
        leaders=sum(placement[name][0] == broker for name in held),
        size_bytes=sum(sizes.get(name, 0) for name in held),
    )


def change_rows(
    view: ClusterView, summary: PlanSummary, sizes: Mapping[TopicPartition, int]
) -> list[tuple[Any, ...]]:
    """Return a row per partition of a plan: partition, replicas before and after, bytes of a copy, copies."""
    rows = []
    for name, target in sorted(summary.targets.items()):
        before = view.partitions[name].replicas
        added = len(set(target) - set(before))
        rows.append((str(name), describe_replicas(before), describe_replicas(target), sizes.get(name, 0), added))
    return rows
