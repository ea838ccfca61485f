"""Everything, for several brokers in one run: repetitions take turns, so that a slow minute hits all of them.

Each case runs once in small to warm up, unrecorded, and then as often as asked, one target after the other. Only one
target works at a time; the others idle. What compiles itself while it runs is warmed up with two gigabytes before
(`warm_up.py`). Ratios are taken between neighbours (see `summary.ratios`), to the floor, to Kafka, and to another
checkout of Ottla, if they take part: the last is how a change is compared with what was before it.
"""

import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import confluent_kafka

from benchmarks import latency, small_requests
from benchmarks.client import Subject, temporary_topic
from benchmarks.footprint import footprint
from benchmarks.summary import Figure, Measures, figures, ratios, table
from benchmarks.targets import OTHER, TARGETS, FloorTarget, Target, other_checkout
from benchmarks.throughput import Load, consume, produce
from benchmarks.warm_up import warm_up

WARM_UP_SHARE = 0.05
PRIVATE = ("directory", "beside")
"""Paths of this machine, which are not put into reports."""
BASES = ("floor", "kafka", OTHER)
"""What the others are compared with, where it takes part."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What to run, and how much of it.

    Attributes:
        targets: names of `TARGETS`; ratios are given to those of `BASES` that are among them.
        beside: another checkout of Ottla that takes part.
        only: cases to run, by the beginning of their names; all if empty.
        partitions: for start time and memory.
    """

    targets: Sequence[str]
    only: Sequence[str] = ()
    repetitions: int = 3
    total_mb: int = 1000
    requests: int = 50_000
    latency_seconds: float = 20.0
    latency_rate_per_s: float = 500.0
    partitions: int = 1000
    directory: Path | None = None
    beside: Path | None = None

    def makers(self) -> dict[str, Callable[[Path], Target]]:
        """Return what makes each target, by name."""
        makers: dict[str, Callable[[Path], Target]] = {name: TARGETS[name] for name in self.targets}
        return makers if self.beside is None else {**makers, OTHER: other_checkout(self.beside)}


@dataclass(slots=True)
class Results:
    """Measures by case, target and repetition."""

    cases: dict[str, dict[str, list[Measures]]] = field(default_factory=dict)

    def add(self, case: str, target: str, measures: Measures) -> None:
        """Note a repetition's figures."""
        self.cases.setdefault(case, {}).setdefault(target, []).append(measures)

    def to_document(self, plan: Plan) -> dict[str, Any]:
        """Return everything as plain JSON values, the raw repetitions included."""
        return {
            "machine": {"cpus": os.cpu_count(), "platform": platform.platform(), "python": platform.python_version()},
            "librdkafka": confluent_kafka.libversion()[0],
            "plan": {name: value for name, value in asdict(plan).items() if name not in PRIVATE},
            "cases": {
                case: {
                    target: {
                        "repetitions": measured,
                        "figures": {name: asdict(found) for name, found in figures(measured).items()},
                        "ratios": {
                            base: {name: asdict(found) for name, found in compared.items()}
                            for (subject, base), compared in _ratios(by_target).items()
                            if subject == target
                        },
                    }
                    for target, measured in by_target.items()
                }
                for case, by_target in self.cases.items()
            },
        }

    def to_text(self) -> str:
        """Return one table per case: figures by target, and each target's ratio to the floor."""
        return "\n\n".join(f"{case}\n{case_table(by_target)}" for case, by_target in self.cases.items())


def run(plan: Plan, progress: Progress) -> Results:
    """Run the plan. Every process is stopped and every file deleted at the end, whatever happens."""
    results = Results()
    directory = Path(tempfile.mkdtemp(prefix="ottla-benchmark-", dir=plan.directory))
    try:
        _run_footprints(plan, directory, results, progress)
        with ExitStack() as running:
            _claim_page_cache(directory, plan.total_mb)
            subjects: dict[str, Subject] = {}
            for name, make in plan.makers().items():
                target = make(directory / name)
                running.callback(target.stop)
                subjects[name] = target.start()
                if name == "kafka" and _cases(plan):
                    progress("kafka: warming up")
                    warm_up(subjects[name])
            for case, runner in _cases(plan).items():
                _take_turns(plan, case, runner, subjects, results, progress)
    finally:
        shutil.rmtree(directory)
    return results


Runner = Callable[[Subject, float], Mapping[str, Measures]]
"""Runs a case at a share of its full size and returns the measures by the name they are reported under."""


def _cases(plan: Plan) -> dict[str, Runner]:
    total_bytes = plan.total_mb * 1_000_000
    cases: dict[str, Runner] = {
        "1 KB acks=1": _throughput_case("1 KB acks=1", Load(1000, total_bytes)),
        "1 KB idempotent": _throughput_case("1 KB idempotent", Load(1000, total_bytes, "idempotent")),
        "100 B acks=1": _throughput_case("100 B acks=1", Load(100, total_bytes // 4)),
        **{f"one-record {variant}": _small_case(variant, plan.requests) for variant in small_requests.VARIANTS},
        "latency": _latency_case(plan),
    }
    return {name: case for name, case in cases.items() if _wanted(plan, name)}


def _throughput_case(name: str, load: Load) -> Runner:
    def runner(subject: Subject, share: float) -> Mapping[str, Measures]:
        scaled = Load(load.record_bytes, int(load.total_bytes * share), load.acks)
        with temporary_topic(subject.bootstrap) as topic:
            produced = produce(subject, topic, scaled)
            return {f"produce {name}": produced, f"consume {name}": consume(subject, topic, scaled.records)}

    return runner


def _small_case(variant: str, requests: int) -> Runner:
    def runner(subject: Subject, share: float) -> Mapping[str, Measures]:
        with temporary_topic(subject.bootstrap) as topic:
            measures = small_requests.VARIANTS[variant](subject, topic, max(100, int(requests * share)))
            return {f"one-record {variant}": measures}

    return runner


def _latency_case(plan: Plan) -> Runner:
    def runner(subject: Subject, share: float) -> Mapping[str, Measures]:
        records = max(100, int(plan.latency_seconds * plan.latency_rate_per_s * share))
        with temporary_topic(subject.bootstrap) as topic:
            rate_per_s = plan.latency_rate_per_s
            return {
                f"latency at {rate_per_s:g}/s": latency.measure(
                    subject, topic, records=records, rate_per_s=rate_per_s
                )
            }

    return runner


def _take_turns(
    plan: Plan, case: str, runner: Runner, subjects: Mapping[str, Subject], results: Results, progress: Progress
) -> None:
    for subject in subjects.values():
        runner(subject, WARM_UP_SHARE)
    for repetition in range(1, plan.repetitions + 1):
        for target, subject in subjects.items():
            progress(f"{case}: {target}, {repetition} of {plan.repetitions}")
            for name, measures in runner(subject, 1.0).items():
                results.add(name, target, measures)
            _let_the_disk_catch_up()


def _run_footprints(plan: Plan, directory: Path, results: Results, progress: Progress) -> None:
    """Start time and memory: each repetition with data of its own. The floor has no many partitions to offer."""
    if not _wanted(plan, "footprint"):
        return
    for repetition in range(1, plan.repetitions + 1):
        for name, make in plan.makers().items():
            progress(f"footprint: {name}, {repetition} of {plan.repetitions}")
            target = make(directory / f"{name}-footprint-{repetition}")
            partitions = 0 if isinstance(target, FloorTarget) else plan.partitions
            results.add("footprint", name, footprint(target, partitions))


def _wanted(plan: Plan, case: str) -> bool:
    return not plan.only or any(case.startswith(beginning) for beginning in plan.only)


def _claim_page_cache(directory: Path, size_mb: int) -> None:
    """Write and delete as much as a repetition will, so that the first one does not pay for memory never used before.

    On a virtual machine the first touch of a page costs several times what writing to it does.
    """
    path = directory / "page-cache"
    with path.open("wb", buffering=0) as file:
        for _ in range(size_mb):
            file.write(bytes(1_000_000))
    path.unlink()


def _let_the_disk_catch_up() -> None:
    """Write back what is still dirty, so that the next one's writes are not throttled for this one's."""
    os.sync()
    time.sleep(0.1)


def _ratios(by_target: Mapping[str, Sequence[Measures]]) -> dict[tuple[str, str], dict[str, Figure]]:
    """Return the ratios of every target to every base."""
    return {
        (target, base): ratios(measured, by_target[base])
        for base in BASES
        if base in by_target
        for target, measured in by_target.items()
        if target not in BASES[: BASES.index(base) + 1]
    }


def case_table(by_target: Mapping[str, Sequence[Measures]]) -> str:
    """Return a table of one case: the figures of each target, and its ratios to the bases that took part."""
    found = {target: figures(measured) for target, measured in by_target.items()}
    compared = _ratios(by_target)
    names = list(dict.fromkeys(name for by_name in found.values() for name in by_name))
    headings = ["", *found, *(f"{target}/{base}" for target, base in compared)]
    rows = [
        [name]
        + [str(by_name[name]) if name in by_name else "-" for by_name in found.values()]
        + [str(by_name[name]) if name in by_name else "-" for by_name in compared.values()]
        for name in names
    ]
    return table(headings, rows)
