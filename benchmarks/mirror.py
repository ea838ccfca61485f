"""What copying topics from one cluster to another costs: CPU of the mirroring process, rate, memory, lag.

`copies`: a topic is filled at the source, and a mirror is started that has all of it to copy. The first part of the
records, two gigabytes, warms it up, which a JVM needs; only the others are measured. Both clusters have a single
broker, of Ottla unless Kafka's are asked for, and are the same for all who mirror. It is the CPU of the mirroring
process that is compared, so what the brokers use does not matter.

`many`: thousands of partitions with little traffic (`mirror_many.py`). `linked`: the leader of a linked topic beside
a follower (`mirror_linked.py`), which needs no mirror. The floor is a process that receives and sends as many bytes.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import mirror_linked, mirror_many
from benchmarks.client import BenchmarkFailed, delete_topic
from benchmarks.mirror_fill import fill, records_per_batch
from benchmarks.mirror_floor import floor_cpu_s
from benchmarks.mirror_processes import (
    EXACTLY_ONCE,
    MIRROR_MAKER,
    MIRRORS,
    OTTLA_MIRROR,
    Mirror,
    MirroredTopic,
    log_ends,
    one_broker,
)
from benchmarks.process_stats import cpu_time, peak_mib, resident_mib
from benchmarks.summary import Measures
from benchmarks.warm_up import WARM_UP_BYTES
from tests.support.clients.raw_client import RawClient

CODECS: Final = ("none", "lz4")
CASES: Final = ("copies", "many", "linked")
POLL_S: Final = 0.1
STALLED_AFTER_S: Final = 240.0
COMPARED: Final = ("records_per_cpu_s", "records_per_s", "memory_mib", "cpu_percent", "lag_p99_ms")
"""What ratios are given of, where both mirrors have it."""


@dataclass(frozen=True, kw_only=True)
class MirrorPlan:
    """What to measure.

    Attributes:
        cases: of `CASES`.
        mirrors: who mirrors, of `ALL_MIRRORS`.
        clusters: whether both clusters are ``ottla`` or ``kafka``.
        record_bytes: sizes of values.
        codecs: of `CODECS`.
        warm_up_mb: megabytes of values that are copied before the measurement begins.
        total_mb: megabytes of values that are measured.
        partitions: of each topic.
        many_partitions: of the topic with little traffic.
        rate: records a second in it.
        watched_s: how long it is watched, in seconds.
        repetitions: of the linked topic and the follower.
    """

    cases: Sequence[str] = CASES
    mirrors: Sequence[str] = MIRRORS
    clusters: str = "ottla"
    record_bytes: Sequence[int] = (1000, 100)
    codecs: Sequence[str] = CODECS
    warm_up_mb: int = WARM_UP_BYTES // 1_000_000
    total_mb: int = 1000
    partitions: int = 4
    many_partitions: int = 2000
    rate: float = 200.0
    watched_s: float = 30.0
    repetitions: int = 3


def measure(directory: Path, plan: MirrorPlan, say: Callable[[str], None]) -> dict[str, Measures]:
    """Return the figures of every case, by mirror, and the ratios between mirrors."""
    found: dict[str, Measures] = {}
    if "linked" in plan.cases:
        found |= mirror_linked.measure(directory, plan.total_mb * 1_000_000, plan.repetitions, say)
    if {"copies", "many"} & set(plan.cases):
        with ExitStack() as stack:
            source = stack.enter_context(one_broker(plan.clusters, directory / "source")).bootstrap
            target = stack.enter_context(one_broker(plan.clusters, directory / "target")).bootstrap
            if "copies" in plan.cases:
                for size in plan.record_bytes:
                    for codec in plan.codecs:
                        found |= _copies(directory, plan, source, target, size, codec, say)
            if "many" in plan.cases:
                found |= _many(directory, plan, source, target, say)
    return found


def _copies(
    directory: Path,
    plan: MirrorPlan,
    source: str,
    target: str,
    size: int,
    codec: str,
    say: Callable[[str], None],
) -> dict[str, Measures]:
    """Have each mirror copy the same topic."""
    case = f"{size} B {codec}"
    say(f"{case}: publishing")
    warm_up_bytes = plan.warm_up_mb * 1_000_000
    topic, count = fill(source, plan.partitions, size, codec, warm_up_bytes + plan.total_mb * 1_000_000)
    found: dict[str, Measures] = {}
    for name in plan.mirrors:
        say(f"{case}: {name}")
        mirrored = MirroredTopic(name, f"{name}-{size}-{codec}", source, target, topic, codec)
        with mirrored.mirror(directory) as mirror:
            measures = _copied(mirror, mirrored, plan.partitions, warm_up_bytes // size, count)
        found[f"{name} {case}"] = measures
        say(f"{case}: {name}: {measures['records_per_cpu_s']:,.0f} records per CPU second")
        delete_topic(target, mirrored.copy)
    delete_topic(source, topic)
    bytes_per_record = size if codec == "none" else size / 2
    floor = floor_cpu_s(int(bytes_per_record * min(count, 1_000_000_000 // size)))
    floor_us = floor / min(count, 1_000_000_000 // size) * 1e6
    found[f"floor {case}"] = {"cpu_us_per_record": floor_us, "records_per_batch": records_per_batch(size, codec)}
    return found | _ratios(found, case)


def _many(
    directory: Path, plan: MirrorPlan, source: str, target: str, say: Callable[[str], None]
) -> dict[str, Measures]:
    case = f"{plan.many_partitions} partitions"
    found: dict[str, Measures] = {}
    for name in plan.mirrors:
        say(f"{case}, {plan.rate:g} records/s: {name}")
        found[f"{name} {case}"] = mirror_many.watch(
            directory,
            source,
            target,
            name,
            partitions=plan.many_partitions,
            rate=plan.rate,
            watched_s=plan.watched_s,
        )
    return found | _ratios(found, case)


def _ratios(found: Mapping[str, Measures], case: str) -> dict[str, Measures]:
    """Return what ours has divided by what MirrorMaker 2 has, if both took part."""
    ours, peer = found.get(f"{OTTLA_MIRROR} {case}"), found.get(f"{MIRROR_MAKER} {case}")
    if ours is None or peer is None:
        return {}
    return {f"ratio {case}": {name: ours[name] / peer[name] for name in COMPARED if name in ours and peer.get(name)}}


def _copied(mirror: Mirror, mirrored: MirroredTopic, partitions: int, warm: int, count: int) -> dict[str, float]:
    """Watch a mirror until it has copied everything; the figures are those of the records after the warm ones."""
    pid = mirror.process.pid
    began: tuple[int, float, float] | None = None
    last, last_change_s = 0, time.perf_counter()
    with RawClient.to(mirrored.target) as client:
        while True:
            mirror.process.check_running()
            there = sum(log_ends(client, mirrored.copy, partitions))
            now_s, used_s = time.perf_counter(), cpu_time(pid).total_s
            if there != last:
                last, last_change_s = there, now_s
            elif now_s - last_change_s > STALLED_AFTER_S:
                raise BenchmarkFailed(
                    f"{there:,} of {count:,} records were copied, and no more; see {mirror.process.log}"
                )
            if began is None and there >= max(warm, 1):
                began = there, now_s, used_s
            if there >= count:
                break
            time.sleep(POLL_S)
    if there > count and mirrored.name != EXACTLY_ONCE:  # which has markers there, beside the records
        raise BenchmarkFailed(f"{there:,} records at the target where {count:,} were published")
    if began is None or began[0] == there:
        raise BenchmarkFailed(f"{count:,} records are too few")
    records, elapsed_s, cpu_s = there - began[0], now_s - began[1], used_s - began[2]
    return {
        "records_per_cpu_s": records / cpu_s,
        "cpu_us_per_record": cpu_s / records * 1e6,
        "records_per_s": records / elapsed_s,
        "whole_cpu_s": used_s,
        "memory_mib": resident_mib(pid),
        "peak_memory_mib": peak_mib(pid),
    }
