"""What must hold of the records and offsets of the test plugins' `ListSource` and `CollectingSink`, whatever failed.

A source task counts positions up from 0. At least once: no position is missing below one that is committed. Offsets
never ahead: when an offset was appended to the offsets topic, a record of every position up to it had been appended
before; both topics have the brokers' append time. One task at a time: what two processes of a task appended does not
overlap. At least once into the sink: every record of the topic is in the sink's file.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple


class SourceTaskId(NamedTuple):
    """A task of a source connector."""

    connector: str
    task: int


class AppendResult(NamedTuple):
    """A record of a source task, as a consumer reads it.

    Attributes:
        task: whose it is.
        position: its number.
        pid: the process that made it.
        append_ms: when the leader appended it.
    """

    task: SourceTaskId
    position: int
    pid: int
    append_ms: int


class Committed(NamedTuple):
    """A source offset, as a consumer of the offsets topic reads it.

    Attributes:
        task: whose it is.
        position: the last position that is said to be in the topic.
        append_ms: when the leader appended it.
    """

    task: SourceTaskId
    position: int
    append_ms: int


class Origin(NamedTuple):
    """Where a record stands."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class _Run:
    pid: int
    first_ms: int
    last_ms: int


def source_problems(appended: Iterable[AppendResult], committed: Iterable[Committed]) -> Iterator[str]:
    """What is wrong with the delivery of the sources."""
    first_ms: dict[SourceTaskId, dict[int, int]] = {}
    for record in appended:
        times = first_ms.setdefault(record.task, {})
        times[record.position] = min(record.append_ms, times.get(record.position, record.append_ms))
    by_task: dict[SourceTaskId, list[Committed]] = {}
    for commit in committed:
        by_task.setdefault(commit.task, []).append(commit)
    for task in sorted({*by_task, *first_ms}):
        yield from _offset_problems(task, by_task.get(task, []), first_ms.get(task, {}))


def _offset_problems(task: SourceTaskId, commits: list[Committed], first_ms: Mapping[int, int]) -> Iterator[str]:
    safe_ms = []  # when every position up to here was there
    latest = 0
    for position in range(max(first_ms, default=-1) + 1):
        if position not in first_ms:
            yield from _gap_problems(task, commits, position)
            return
        latest = max(latest, first_ms[position])
        safe_ms.append(latest)
    for commit in commits:
        if commit.position >= len(safe_ms):
            yield f"{task}: position {commit.position} is committed and not in the topic"
        elif safe_ms[commit.position] > commit.append_ms:
            late_ms = safe_ms[commit.position] - commit.append_ms
            yield f"{task}: offset {commit.position} was committed {late_ms} ms before all records up to it came"


def _gap_problems(task: SourceTaskId, commits: list[Committed], position: int) -> Iterator[str]:
    committed = any(commit.position >= position for commit in commits)
    yield f"{task}: position {position} is " + ("committed and not in the topic" if committed else "missing")


def overlap_problems(appended: Iterable[AppendResult]) -> Iterator[str]:
    """Which tasks ran in two processes at a time."""
    runs: dict[SourceTaskId, dict[int, _Run]] = {}
    for record in appended:
        of_task = runs.setdefault(record.task, {})
        seen = of_task.get(record.pid, _Run(record.pid, record.append_ms, record.append_ms))
        of_task[record.pid] = _Run(
            record.pid, min(seen.first_ms, record.append_ms), max(seen.last_ms, record.append_ms)
        )
    for task, of_task in sorted(runs.items()):
        ordered = sorted(of_task.values(), key=lambda run: run.first_ms)
        for before, after in pairwise(ordered):
            if after.first_ms < before.last_ms:
                yield (
                    f"{task}: process {after.pid} wrote {before.last_ms - after.first_ms} ms before "
                    f"process {before.pid} was done"
                )


def sink_problems(name: str, path: Path, expected: Iterable[Origin]) -> Iterator[str]:
    """Which records of the topics are not in a sink's file."""
    missing = sorted(set(expected) - set(collected(path)))
    if missing:
        yield f"{name}: {len(missing)} records are missing, the first: {missing[:3]}"


def collected(path: Path) -> Iterator[Origin]:
    """Where the records in a sink's file come from; a line that is still being written does not count."""
    if not path.exists():
        return
    for line in path.read_bytes().split(b"\n")[:-1]:
        record = json.loads(line)
        if record["event"] == "record":
            yield Origin(record["topic"], record["partition"], record["offset"])
