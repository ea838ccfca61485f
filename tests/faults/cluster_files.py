"""What the brokers of a cluster that was stopped have in their files, and what all processes have logged."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ottla_core.wire.record_batch import parse_header
from ottla_core.wire.records import iterate_records
from ottla_group_coordinator.records import OffsetCommitKey, OffsetCommitValue, decode_key, decode_value
from tests.faults.checker import Writer
from tests.faults.cluster import Cluster
from tests.faults.cluster_process import ClusterProcess
from tests.faults.committed_offsets import NOTHING_COMMITTED, CommitPlace
from tests.faults.fault import BROKER
from tests.faults.history import Place
from tests.faults.replicas import last_value_problems, replica_batches, replica_problems, sequence_problems
from tests.faults.topics import GROUP_TOPIC, KEEPS, Keeps

TRACEBACK_LINES = 12
TRACEBACK_SHOWN_MAX = 900
TRACEBACK = "Traceback (most recent call last)"
LOG_OF_PARTITION = "*-[0-9]*"


class Settled(NamedTuple):
    """A partition as clients saw it last.

    Attributes:
        replicas: the names of the brokers that have it.
        high_watermark: its end.
        log_start: its first offset.
    """

    replicas: tuple[str, ...]
    high_watermark: int
    log_start: int = 0


Partitions = Mapping[tuple[str, int], Settled]


def all_replica_problems(cluster: Cluster, partitions: Partitions) -> Iterator[str]:
    """Replicas that are missing or differ, and such as nobody knows."""
    for (topic, index), settled in sorted(partitions.items()):
        paths = {name: cluster.data_of(name) / f"{topic}-{index}" for name in settled.replicas}
        missing = [name for name, path in paths.items() if not path.is_dir()]
        if missing:
            yield f"{topic}-{index} lies not on {', '.join(missing)}"
        elif KEEPS.get(topic) is Keeps.LAST_VALUES:
            values = {name: _last_values(path, settled.high_watermark) for name, path in paths.items()}
            yield from last_value_problems(f"{topic}-{index}", values)
        else:
            yield from replica_problems(
                f"{topic}-{index}",
                {name: replica_batches(path) for name, path in paths.items()},
                settled.high_watermark,
                begins_at=max(_segments(path)[0] for path in paths.values()),
                rolled_at={name: _segments(path)[-1] for name, path in paths.items()},
            )
    for broker in cluster.members.of(BROKER):
        known = {f"{topic}-{index}" for (topic, index), each in partitions.items() if broker in each.replicas}
        found = {path.name for path in cluster.data_of(broker).glob(LOG_OF_PARTITION) if path.is_dir()}
        left = sorted(name for name in found - known if not name.endswith(("-delete", "-stray")))
        if left:
            yield f"{broker} still has {', '.join(left[:10])} ({len(left)} logs), of which it is no replica"


def all_sequence_problems(
    cluster: Cluster, partitions: Partitions, *, topics: Collection[str] = KEEPS.keys()
) -> Iterator[str]:
    """Idempotent producers' batches that are stored twice or out of order."""
    for topic in topics:
        keeps = KEEPS[topic]
        if keeps in (Keeps.EVERYTHING, Keeps.NEWEST):
            for path in _one_of_each(cluster, partitions, topic):
                yield from sequence_problems(path.name, replica_batches(path), is_whole=keeps is Keeps.EVERYTHING)


def writers_in_log(cluster: Cluster, partitions: Partitions) -> dict[Place, Writer]:
    """Who wrote each record of the load, from the files of brokers that are equal."""
    writers: dict[Place, Writer] = {}
    for topic in KEEPS:
        for path in _one_of_each(cluster, partitions, topic):
            index = int(path.name.rpartition("-")[2])
            for batch in replica_batches(path):
                for offset in range(batch.base_offset, batch.next_offset):
                    writers[Place(topic, index, offset)] = Writer(*batch.producer)
    return writers


def retained_bytes(cluster: Cluster, partitions: Partitions, topic: str) -> Iterator[tuple[str, int, int]]:
    """Where each replica of a topic begins, and how many bytes it has."""
    for (name, index), settled in sorted(partitions.items()):
        if name == topic:
            for broker in settled.replicas:
                path = cluster.data_of(broker) / f"{topic}-{index}"
                size = sum(each.stat().st_size for each in path.glob("*.log"))
                yield f"{path.name} of {broker}", _segments(path)[0], size


def _one_of_each(cluster: Cluster, partitions: Partitions, topic: str) -> list[Path]:
    """The directory of one replica of each of a topic's partitions."""
    return [
        cluster.data_of(settled.replicas[0]) / f"{name}-{index}"
        for (name, index), settled in sorted(partitions.items())
        if name == topic
    ]


def _segments(partition: Path) -> list[int]:
    return sorted(int(path.stem) for path in partition.glob("*.log")) or [0]


def _last_values(partition: Path, high_watermark: int) -> dict[bytes, tuple[int, bytes | None]]:
    values = {}
    for batch in replica_batches(partition):
        for record in iterate_records(batch.content, parse_header(batch.content)):
            if record.offset < high_watermark:
                values[record.key or b""] = record.offset, record.value
    return values


def committed_in_log(cluster: Cluster, partitions: Partitions) -> dict[CommitPlace, list[int]]:
    """All offsets that groups have ever committed, from the files of brokers that have stopped and are equal."""
    committed: defaultdict[CommitPlace, list[int]] = defaultdict(list)
    for partition in _one_of_each(cluster, partitions, GROUP_TOPIC):
        for batch in replica_batches(partition):
            for record in iterate_records(batch.content, parse_header(batch.content)):
                key = decode_key(record.key or b"")
                if isinstance(key, OffsetCommitKey):
                    value = None if record.value is None else decode_value(key, record.value)
                    offset = value.offset if isinstance(value, OffsetCommitValue) else NOTHING_COMMITTED
                    committed[CommitPlace(key.group, key.partition)].append(offset)
    return committed


def log_problems(processes: Mapping[str, ClusterProcess]) -> Iterator[str]:
    """Tracebacks and panics in the processes' logs."""
    for name, process in processes.items():
        text = process.log.read_text(errors="replace") if process.log.exists() else ""
        lines = text.splitlines()
        found = [number for number, line in enumerate(lines) if TRACEBACK in line or "panic:" in line]
        if found:
            yield f"{name} logged {len(found)} tracebacks, the first: {_shown(lines, found[0])} (see {process.log})"


def _shown(lines: Sequence[str], number: int) -> str:
    """A traceback without its middle: of a service's log it is all in one line, of another program's in several."""
    try:
        text = str(json.loads(lines[number])["exception"])
    except (ValueError, KeyError):
        text = "\n".join(lines[number : number + TRACEBACK_LINES])
    return text if len(text) < TRACEBACK_SHOWN_MAX else f"{text[:200]} … {text[-TRACEBACK_SHOWN_MAX:]}"
