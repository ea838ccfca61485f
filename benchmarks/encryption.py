"""Publishing and reading over TLS, beside the same without it, on brokers that are started here.

Each broker is held to one processor, and the client has the others, so the records per second are those of a core.
The targets take turns; each listener is warmed up before, since what compiles itself needs that.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.client import Subject, temporary_topic
from benchmarks.logins import Brokers
from benchmarks.summary import Measures
from benchmarks.throughput import Load, consume, produce

PROTOCOLS: Final = ("PLAINTEXT", "SSL")


@dataclass(frozen=True, kw_only=True)
class EncryptionPlan:
    """What to measure.

    Attributes:
        sizes_bytes: of the records' values.
        total_mb: megabytes of values of each measurement.
        warm_up_mb: before it, on each listener.
        repetitions: of everything, on every target.
    """

    sizes_bytes: tuple[int, ...] = (1000, 100)
    total_mb: int = 300
    warm_up_mb: int = 800
    repetitions: int = 3


def measure(
    names: list[str], directory: Path, plan: EncryptionPlan, say: Callable[[str], None]
) -> dict[str, list[Measures]]:
    """Return the figures of every repetition by the name of the target; the targets take turns."""
    processors = sorted(os.sched_getaffinity(0))
    found: dict[str, list[Measures]] = {name: [] for name in names}
    running: dict[str, tuple[Brokers, Subject]] = {}
    try:
        os.sched_setaffinity(0, processors[1:] or processors)
        for name in names:
            brokers = Brokers(name, directory / name)
            running[name] = (brokers, brokers.start())
            hold_to(running[name][1].pid, processors[0])
            for protocol in PROTOCOLS:
                say(f"encryption: {name} is warmed up, {protocol}")
                _measure(*running[name], protocol, 1000, plan.warm_up_mb)
        for repetition in range(1, plan.repetitions + 1):
            for name in names:
                say(f"encryption: {name}, {repetition} of {plan.repetitions}")
                measures: dict[str, float] = {}
                for size_bytes in plan.sizes_bytes:
                    for protocol in PROTOCOLS:
                        measures |= _measure(*running[name], protocol, size_bytes, plan.total_mb)
                found[name].append(measures)
    finally:
        os.sched_setaffinity(0, processors)
        for brokers, _ in running.values():
            brokers.stop()
    return found


def hold_to(pid: int, processor: int) -> None:
    """Keep all threads of a process on one processor; threads that it begins later inherit that."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {processor})


def _measure(
    brokers: Brokers, subject: Subject, protocol: str, size_bytes: int, total_mb: int
) -> Mapping[str, float]:
    load = Load(size_bytes, total_mb * 1_000_000)
    settings = brokers.client_settings(protocol)
    with temporary_topic(subject.bootstrap) as topic:
        written = produce(subject, topic, load, settings)
        read = consume(subject, topic, load.records, settings)
    short = f"{protocol.lower()}_{size_bytes}"
    return {
        f"{short}_{way}_{figure}": figures[figure]
        for way, figures in (("produce", written), ("consume", read))
        for figure in ("cpu_s_per_gb", "mb_per_s")
    }
