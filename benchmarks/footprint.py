"""What a broker needs before it does anything: the time to start, and memory, without and with many partitions.

The memory of all processes together is given twice: the sum of what each has resident, and with what they share
counted once, which is what the machine has to have for them.

The creation of partitions is timed until a Metadata answer shows all leaders, and until these serve: Kafka answers
before its logs are there.

A start is timed from the outside: from the execution of the command (and, where a launcher starts several processes,
also from the start of the broker's own) until a Metadata answer names a leader for every partition.
"""

import threading
import time
from collections.abc import Mapping

from benchmarks.client import Subject, create_topic, temporary_topic, wait_for_leaders, wait_until_served
from benchmarks.process_stats import resident_mib, shared_once_mib, started_at_s
from benchmarks.targets import Target

SETTLE_INTERVAL_S = 1.0
SETTLED_WITHIN_MIB = 0.5
SETTLE_TIMEOUT_S = 15.0


def settled_mib(pid: int) -> float:
    """Return the resident memory once it has stopped changing, or the last one seen."""
    give_up_s = time.monotonic() + SETTLE_TIMEOUT_S
    last = resident_mib(pid)
    while time.monotonic() < give_up_s:
        time.sleep(SETTLE_INTERVAL_S)
        now = resident_mib(pid)
        if abs(now - last) < SETTLED_WITHIN_MIB:
            return now
        last = now
    return last


def timed_start(target: Target, partitions: int) -> tuple[Subject, dict[str, float]]:
    """Start a target and return its broker and how long that took."""
    answered: list[float] = []

    def poll() -> None:
        answered.append(wait_for_leaders(target.address, partitions))

    polling = threading.Thread(target=poll, daemon=True)
    polling.start()
    subject = target.start()
    polling.join()
    if not answered:  # it has said why
        wait_for_leaders(target.address, partitions)
    return subject, {
        "all_start_s": answered[0] - target.started_at_s,
        "broker_start_s": answered[0] - started_at_s(subject.pid),
    }


def memory_of(processes: Mapping[str, int]) -> dict[str, float]:
    """Return the idle memory of each process, and of all."""
    found = {f"{name}_idle_mib": settled_mib(pid) for name, pid in processes.items()}
    return {
        **found,
        "all_idle_sum_mib": sum(found.values()),
        "all_idle_shared_once_mib": shared_once_mib(processes.values()),
    }


def memory(subject: Subject, partitions: int) -> dict[str, float]:
    """Return a running broker's memory and what more partitions add; they are deleted at the end."""
    idle = settled_mib(subject.pid)
    with temporary_topic(subject.bootstrap, partitions):
        return {"idle_mib": idle, f"{partitions}_partitions_add_mib": settled_mib(subject.pid) - idle}


def footprint(target: Target, partitions: int) -> dict[str, float]:
    """Start a new target three times (new, empty, with partitions) and return times and memory."""
    found: dict[str, float] = {}
    try:
        target.start()
        target.stop()
        subject, times = timed_start(target, 0)
        found |= {f"empty_{name}": value for name, value in times.items()}
        found |= memory_of(target.processes())
        if not partitions:
            return found
        idle = resident_mib(subject.pid)
        began_s = time.perf_counter()
        topic = create_topic(subject.bootstrap, partitions)
        found[f"create_{partitions}_partitions_s"] = time.perf_counter() - began_s
        wait_until_served(subject.bootstrap, topic, partitions)
        found[f"create_and_serve_{partitions}_partitions_s"] = time.perf_counter() - began_s
        found[f"{partitions}_partitions_add_mib"] = settled_mib(subject.pid) - idle
        target.stop()
        subject, times = timed_start(target, partitions)
        found |= {f"{partitions}_partitions_{name}": value for name, value in times.items()}
        found[f"{partitions}_partitions_restarted_add_mib"] = settled_mib(subject.pid) - idle
    finally:
        target.stop()
    return found
