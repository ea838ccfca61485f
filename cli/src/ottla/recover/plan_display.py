"""A recovery plan for people, and for programs; pure but for the printing."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ottla.output import print_table
from ottla.recover.merging import RecoveryPlan
from ottla.recover.partition_rules import PartitionPlan, Verdict
from ottla_operations.quantities import counted

SHOWN_MAX = 50
"""Partitions that are shown one by one."""

_MEANINGS = {
    Verdict.IN_SYNC: "led by a replica that was in sync",
    Verdict.LONGEST_LOG: "led by the longest log, which others follow",
    Verdict.WAITS: "led by nobody until what alone has everything is back, or somebody is elected uncleanly",
}


def show_plan(plan: RecoveryPlan) -> None:
    """Print what will be written, and what is to be known before."""
    print(f"cluster {plan.cluster_name}, id {plan.cluster_id}")
    if plan.newest is not None:
        print(f"by the copy of the state of etcd's revision {plan.newest.revision}")
    for broker, at in _times_of(plan).items():
        print(f"broker {broker} was inspected at {at}; inspect it again if it has run since")
    counts = Counter(each.verdict for each in plan.partitions)
    topics = len({each.topic for each in plan.partitions})
    print(f"{counted(topics, 'topic')}, {counted(len(plan.partitions), 'partition')}")
    for verdict, meaning in _MEANINGS.items():
        if counts[verdict]:
            print(f"  {counts[verdict]:,} {meaning}")
    remarkable = [
        each
        for each in plan.partitions
        if each.verdict is not Verdict.IN_SYNC or each.is_rebuilt or each.may_lack_records
    ]
    if remarkable:
        print_table(
            ("partition", "replicas", "in sync", "", "records"),
            [
                (
                    f"{each.topic}-{each.state.index}",
                    ",".join(map(str, each.state.replicas)),
                    ",".join(map(str, each.state.isr)),
                    each.verdict,
                    "some may be lost" if each.may_lack_records else "all",
                )
                for each in remarkable[:SHOWN_MAX]
            ],
        )
    if len(remarkable) > SHOWN_MAX:
        print(f"… and {len(remarkable) - SHOWN_MAX:,} more; --json shows all")
    for sentence in warnings_of(plan):
        print(f"- {sentence}")


def warnings_of(plan: RecoveryPlan) -> list[str]:
    """Return what is to be known of a plan, a sentence each."""
    lacking = [each for each in plan.partitions if each.may_lack_records]
    found = [f"broker {each} is given up" for each in sorted(plan.without)]
    if lacking:
        found.append(f"acknowledged records of {_named(lacking)} may be only where nobody could look, or lost")
    if plan.rebuilt_topics:
        found.append(
            f"only the logs were known of {', '.join(plan.rebuilt_topics)}: their settings are lost. They keep all "
            "records until you set cleanup.policy and retention with `ottla config set`"
        )
    return [*found, *plan.notes]


def plan_document(plan: RecoveryPlan) -> Mapping[str, Any]:
    """Return the plan for programs."""
    return {
        "cluster_name": plan.cluster_name,
        "cluster_id": plan.cluster_id,
        "revision": None if plan.newest is None else plan.newest.revision,
        "recovery": plan.recovery.number,
        "keys": len(plan.entries),
        "rebuilt_topics": list(plan.rebuilt_topics),
        "without_brokers": sorted(plan.without),
        "inspected": {str(broker): at for broker, at in _times_of(plan).items()},
        "warnings": warnings_of(plan),
        "partitions": [
            {
                "topic": each.topic,
                "partition": each.state.index,
                "replicas": list(each.state.replicas),
                "isr": list(each.state.isr),
                "leader_epoch": each.state.leader_epoch,
                "verdict": each.verdict.value,
                "longest_log": each.longest,
                "may_lack_records": each.may_lack_records,
                "rebuilt": each.is_rebuilt,
            }
            for each in plan.partitions
        ],
    }


def _times_of(plan: RecoveryPlan) -> Mapping[int, str]:
    return {
        broker: datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
        for broker, at_ms in sorted(plan.inspected_ms.items())
    }


def _named(partitions: list[PartitionPlan]) -> str:
    first = partitions[0]
    name = f"{first.topic}-{first.state.index}"
    return name if len(partitions) == 1 else f"{name} and {len(partitions) - 1:,} other partitions"
