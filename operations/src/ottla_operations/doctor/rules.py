"""From facts of a cluster to findings, in the order of harm. Pure.

A cause is told once, with its effects: partitions that lack a copy as a broker is away are no finding of their own.
"""

from collections.abc import Iterator, Sequence

from ottla_operations.cluster.cluster_view import PartitionView
from ottla_operations.connect.connector_problems import hindrances
from ottla_operations.doctor.falling_behind import progress
from ottla_operations.doctor.findings import Facts, Finding, Harm, named
from ottla_operations.doctor.infrastructure import foundations, is_etcd_full
from ottla_operations.doctor.risks import hazards
from ottla_operations.local_clusters.disk_space import DiskSpace
from ottla_operations.quantities import counted, human_bytes

SCARCE_FRACTION = 0.03
WORKERS = ("connect", "mirror", "console")


def findings(facts: Facts) -> list[Finding]:
    """Return what is wrong, the worst first."""
    found = [
        *_brokers(facts),
        *_partitions(facts),
        *_processes(facts),
        *foundations(facts),
        *_disks(facts),
        *_connectors(facts),
        *progress(facts),
        *hazards(facts),
    ]
    return sorted(found, key=lambda each: each.harm)


def away_brokers(facts: Facts) -> list[int]:
    """Return brokers that partitions count on, or that a local cluster has, and that are not in service."""
    if facts.view is None:
        return []
    counted_on = {broker for each in facts.view.partitions.values() for broker in each.replicas}
    if facts.local is not None:
        counted_on |= {each.id for each in facts.local.processes if each.role == "broker"}
    return sorted(counted_on - facts.view.brokers.keys())


def _waiting_workers(facts: Facts) -> list[str]:
    """Return workers that are not ready while a broker is missing, without which they may have to wait."""
    if facts.local is None or not _missing_brokers(facts):
        return []
    return [each.name for each in facts.local.processes if each.role in WORKERS and each.state == "not ready"]


def _missing_brokers(facts: Facts) -> set[int]:
    silent = facts.view.brokers.keys() - facts.disks.keys() if facts.view is not None else set()
    return {*away_brokers(facts), *silent}


def _brokers(facts: Facts) -> Iterator[Finding]:
    waiting = [f"meanwhile not ready: {', '.join(names)}"] if (names := _waiting_workers(facts)) else []
    for broker in away_brokers(facts):
        assert facts.view is not None
        held = [each for each in facts.view.partitions.values() if broker in each.replicas]
        offline = [each for each in held if each.leader is None]
        lacking = sum(each.leader is not None and broker not in each.in_sync for each in held)
        effects = [f"{counted(len(offline), 'partition')} without a leader ({named(offline)})"] if offline else []
        effects += [f"{counted(lacking, 'partition')} with a copy less"] if lacking else []
        effects += waiting
        yield Finding(
            Harm.UNAVAILABLE if offline else Harm.AT_RISK, "broker-away", f"broker {broker}",
            "it is not in service" + (f": {', '.join(effects)}" if effects else ""),
            _process_remedy(facts, "broker", broker),
        )  # fmt: skip
    for broker in sorted(facts.view.brokers.keys() - facts.disks.keys()) if facts.view else ():
        yield Finding(
            Harm.UNAVAILABLE, "broker-silent", f"broker {broker}",
            ", ".join(["it is in service and does not answer", *waiting]),
            _process_remedy(facts, "broker", broker),
        )  # fmt: skip


def _partitions(facts: Facts) -> Iterator[Finding]:
    if facts.view is None:
        return
    away = _missing_brokers(facts)
    unexplained = [each for each in facts.view.partitions.values() if not away & set(each.replicas)]
    if offline := [each for each in unexplained if each.leader is None]:
        yield Finding(
            Harm.UNAVAILABLE, "offline-partitions", named(offline),
            f"{counted(len(offline), 'partition')} without a leader, though the brokers are there: no copy that has"
            " everything is left. Bring back the disk that had one, or have another copy lead, losing records",
            f"ottla cluster elect-leaders {_as_arguments(offline)} --unclean",
        )  # fmt: skip
    failed = facts.failed_directories.keys()
    lacking = [
        each
        for each in unexplained
        if each.leader is not None and each.is_under_replicated and each.name not in facts.moves
    ]
    if behind := [each for each in lacking if not set(each.replicas) - set(each.in_sync) <= failed]:
        yield Finding(
            Harm.AT_RISK, "under-replicated-partitions", named(behind),
            f"{counted(len(behind), 'partition')} with a copy that is not in sync, though the brokers are there",
            "ottla cluster describe",
        )  # fmt: skip


def _as_arguments(partitions: Sequence[PartitionView]) -> str:
    """Return partitions as `ottla cluster elect-leaders` takes them."""
    by_topic: dict[str, list[str]] = {}
    for each in partitions:
        by_topic.setdefault(each.name.topic, []).append(str(each.name.partition))
    return " ".join(f"{topic}:{','.join(numbers)}" for topic, numbers in by_topic.items())


def _processes(facts: Facts) -> Iterator[Finding]:
    if facts.local is None:
        return
    if facts.local.state == "stopped":
        yield Finding(
            Harm.ADVICE, "cluster-stopped", facts.local.directory, "the local cluster was stopped",
            f"ottla up --detach --dir {facts.local.directory}",
        )  # fmt: skip
        return
    if facts.local.state == "lost":
        yield Finding(
            Harm.UNAVAILABLE, "supervisor-lost", facts.local.directory, "the local cluster's supervisor has ended",
            f"ottla up --detach --dir {facts.local.directory}",
        )  # fmt: skip
        return
    told, waiting = _missing_brokers(facts), _waiting_workers(facts)
    etcd = [each for each in facts.local.processes if each.role == "etcd"]
    if etcd and 2 * sum(each.state == "ready" for each in etcd) <= len(etcd):  # the others wait for it
        waiting += [each.name for each in facts.local.processes if each.role != "etcd" and each.state == "not ready"]
    for each in facts.local.processes:
        if each.state == "ready" or (each.role == "broker" and each.id in told) or each.name in waiting:
            continue
        if each.role == "etcd" and is_etcd_full(facts):
            continue
        others = [p for p in facts.local.processes if p.role == each.role and p.state == "ready"]
        harm = Harm.STALLED if each.role in WORKERS else Harm.AT_RISK if others else Harm.UNAVAILABLE
        yield Finding(
            harm, "process-not-ready", each.name, f"it is {each.state}", _process_remedy(facts, each.role, each.id)
        )


def _disks(facts: Facts) -> Iterator[Finding]:
    for broker, failed in sorted(facts.failed_directories.items()):
        yield Finding(
            Harm.AT_RISK, "log-directory-failed", f"broker {broker}",
            f"it cannot use {', '.join(failed)} until the disk is mended and the broker started again",
            _process_remedy(facts, "broker", broker),
        )  # fmt: skip
    by_room: dict[tuple[int, int], list[int]] = {}
    for broker, directories in sorted(facts.disks.items()):
        for free, size in set(directories):
            if size > 0 and free >= 0 and (DiskSpace(free, size).is_full or free < size * SCARCE_FRACTION):
                by_room.setdefault((free, size), []).append(broker)
    for (free, size), brokers in by_room.items():
        is_full = DiskSpace(free, size).is_full
        yield Finding(
            Harm.UNAVAILABLE if is_full else Harm.AT_RISK, "disk-full" if is_full else "disk-fills",
            f"disk of broker {', '.join(map(str, brokers))}",
            f"{human_bytes(free)} free of {human_bytes(size)}" + (": no records are stored" if is_full else ""),
            "ottla cluster describe",
        )  # fmt: skip


def _connectors(facts: Facts) -> Iterator[Finding]:
    for status in facts.connectors:
        for each in hindrances(status):
            if not each.is_beginning:
                yield Finding(
                    Harm.STALLED, "connector-fails", f"connector {status['name']}, {each.part}", each.reason,
                    f"ottla connect restart {status['name']} --tasks --only-failed",
                )  # fmt: skip


def _process_remedy(facts: Facts, role: str, number: int) -> str:
    if facts.local is None:
        return "ottla cluster describe"
    return f"ottla logs {role}-{number} --dir {facts.local.directory}"
