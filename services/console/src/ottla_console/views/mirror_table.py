"""Flows of mirror workers and links of a cluster, as they are shown. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla_core.cluster.controller_rpc.link_api import DescribedLink, LinkKeeping, PartitionStatus
from ottla_operations.links.link_standing import WORKING, fails

GRADES: Final = {
    "RUNNING": "good",
    "COPYING": "good",
    "PAUSED": "own",
    "STARTING": "advice",
    "WAITING": "advice",
    "UNASSIGNED": "advice",
    "DEGRADED": "bad",
    "FAILED": "bad",
    "HALTED": "bad",
    "REFUSED": "bad",
}
TEXT_MAX: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRow:
    """A flow; what is None is not known.

    Attributes:
        grade: of its state, as badges have it.
    """

    name: str
    state: str
    grade: str
    reason: str
    topics: int | None
    partitions: int | None
    lag_records: int | None
    throttle_bytes_per_s: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRow:
    """A partition that a flow copies."""

    topic: str
    remote_topic: str
    partition: int | None
    state: str
    grade: str
    reason: str
    worker: str
    lag_records: int | None
    lag_seconds: float | None
    bytes_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRow:
    """A link.

    Attributes:
        not_working: partitions that neither follow nor are paused.
        lag: offsets of the source that are not here, as far as that is known.
        is_in_step: whether topics, settings and groups are as at the source.
    """

    name: str
    source: str
    topics: int
    partitions: int
    not_working: int
    lag: int
    is_paused: bool
    is_in_step: bool


def grade_of(state: str) -> str:
    """Return how good a state is; one that is not known is bad."""
    return GRADES.get(state, "bad")


def flow_rows(documents: object) -> list[FlowRow]:
    """Return the flows that workers tell; what cannot be read of them is left out."""
    rows = []
    for each in _objects(documents):
        state = _text(each.get("state"))
        rows.append(
            FlowRow(
                name=_text(each.get("name")),
                state=state,
                grade=grade_of(state),
                reason=_text(each.get("reason")),
                topics=_count(each.get("topics")),
                partitions=_count(each.get("partitions")),
                lag_records=_count(each.get("lag_records")),
                throttle_bytes_per_s=_count(each.get("throttle_bytes_per_second")),
            )
        )
    return sorted(rows, key=lambda row: row.name)


def copy_rows(document: object) -> list[CopyRow]:
    """Return the partitions of a flow's lag: what is not copied first, then the furthest behind, then by name."""
    rows = []
    for each in _objects(document.get("partitions")) if isinstance(document, dict) else []:
        state = _text(each.get("state"))
        rows.append(
            CopyRow(
                topic=_text(each.get("topic")),
                remote_topic=_text(each.get("remote_topic")),
                partition=_count(each.get("partition")),
                state=state,
                grade=grade_of(state),
                reason=_text(each.get("reason")),
                worker=_text(each.get("worker_id")),
                lag_records=_count(each.get("lag_records")),
                lag_seconds=_number(each.get("lag_seconds")),
                bytes_per_s=_number(each.get("bytes_per_second")),
            )
        )
    return sorted(rows, key=lambda row: (row.grade != "bad", -(row.lag_records or 0), row.topic, row.partition or 0))


def link_rows(
    links: Sequence[DescribedLink], partitions: Sequence[PartitionStatus], keepings: Sequence[LinkKeeping]
) -> list[LinkRow]:
    """Return the links, by name."""
    failing = {each.link for each in keepings if fails(each)}
    rows = []
    for each in links:
        own = [status for status in partitions if status.link == each.link.name]
        rows.append(
            LinkRow(
                name=each.link.name,
                source=", ".join(each.link.bootstrap_servers),
                topics=len(each.topics),
                partitions=len(own),
                not_working=sum(status.state not in WORKING for status in own),
                lag=sum(max(0, status.lag) for status in own),
                is_paused=each.link.paused,
                is_in_step=each.link.name not in failing,
            )
        )
    return sorted(rows, key=lambda row: row.name)


def linked_partitions(partitions: Sequence[PartitionStatus]) -> list[PartitionStatus]:
    """Return linked partitions: what does not work first, then the furthest behind, then by name."""
    return sorted(partitions, key=lambda each: (each.state in WORKING, -each.lag, each.topic, each.index))


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value[:TEXT_MAX] if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
