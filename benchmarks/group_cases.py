"""The group benchmarks as one program: a fresh cluster, and all of `groups` and `shard_load` on it.

It starts its own cluster because a coordinator's settings matter (one shard for `shard_load`), and because it has
to know every process.
"""

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks import groups, shard_load
from benchmarks.client import temporary_topic
from benchmarks.groups import GroupLoad
from benchmarks.summary import Measures
from benchmarks.targets import KafkaTarget, OttlaTarget, Target
from benchmarks.warm_up import warm_up

PARTITIONS = 50
MEASURED_PROCESSES = frozenset({"broker-1", "group-coordinator-1", "kafka"})
CASES = ("stability", "rates", "rebalance", "shard-load")


@dataclass(frozen=True, kw_only=True)
class GroupPlan:
    """What to measure.

    Attributes:
        members: of all groups of `stability`.
        connections: that send heartbeats and commits at the same time in `rates`.
        rebalance_members: of the one group of `rebalance`.
        offsets: records of the shard in `shard-load`.
    """

    target: str = "ottla"
    cases: tuple[str, ...] = CASES
    members: int = 2000
    groups: int = 100
    stability_s: float = 300.0
    rate_s: float = 10.0
    connections: int = 64
    rebalance_members: int = 500
    offsets: int = 1_000_000


def run(plan: GroupPlan, say: Callable[[str], None]) -> dict[str, Measures]:
    """Return the figures of every case by its name."""
    found: dict[str, Measures] = {}
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        on_load = [case for case in plan.cases if case != "shard-load"]
        if on_load:
            target: Target = (KafkaTarget if plan.target == "kafka" else OttlaTarget)(Path(directory) / "groups")
            found |= _on_one_cluster(target, on_load, plan, say)
        if "shard-load" in plan.cases and plan.target == "ottla":
            say("shard-load")
            found["shard-load"] = shard_load.measure(Path(directory) / "shard", plan.offsets)
    return found


def _on_one_cluster(
    target: Target, cases: list[str], plan: GroupPlan, say: Callable[[str], None]
) -> dict[str, Measures]:
    found: dict[str, Measures] = {}
    try:
        subject = target.start()
        if plan.target == "kafka":
            say("warming up")
            warm_up(subject)
        processes = {name: pid for name, pid in target.processes().items() if name in MEASURED_PROCESSES}
        with temporary_topic(subject.bootstrap, PARTITIONS) as topic:
            load = GroupLoad(subject.bootstrap, topic, PARTITIONS, processes)
            for case in cases:
                say(case)
                found[case] = asyncio.run(_measure(case, load, plan))
    finally:
        target.stop()
    return found


async def _measure(case: str, load: GroupLoad, plan: GroupPlan) -> Mapping[str, float]:
    match case:
        case "stability":
            return await groups.stability(load, groups=plan.groups, members=plan.members, seconds=plan.stability_s)
        case "rates":
            return await groups.rates(load, groups=8, connections=plan.connections, seconds=plan.rate_s)
        case _:
            return await groups.rebalance(load, members=plan.rebalance_members)
