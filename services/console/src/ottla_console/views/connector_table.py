"""The list of connectors, and of the workers that run them, as Connect's REST API tells of them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from ottla_operations.connect.connector_problems import (
    FAILED,
    RUNNING,
    UNASSIGNED,
    ConnectorProblem,
    hindrances,
    parts_of,
    total,
)

CLASS_KEY: Final = "connector.class"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorRow:
    """A connector.

    Attributes:
        type: source, sink, or unknown where the worker does not have its plugin.
        plugin: its class.
        state: of the connector's own process.
        grade: of the badge.
        running, tasks: tasks that run, of all.
        records_per_s, lag: of all tasks; None where none tells.
        problem: the first that keeps it from its work, or None.
    """

    name: str
    type: str
    plugin: str
    state: str
    grade: str
    running: int
    tasks: int
    records_per_s: float | None
    lag: float | None
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """A worker.

    Attributes:
        address: HOST:PORT.
        version, health: empty where it was not asked, as the settings have no URL of it.
        grade: of the badge.
        connectors, tasks: that it runs; None where that is not known.
        problem: why it tells nothing, or None.
    """

    address: str
    version: str
    health: str
    grade: str
    connectors: int | None
    tasks: int | None
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedWorker:
    """What a worker said of itself, or why it did not."""

    url: str
    version: str = ""
    health: str = ""
    problem: str | None = None


def connector_rows(expanded: Mapping[str, Mapping[str, Any]]) -> list[ConnectorRow]:
    """Return the rows of the answer to ``/connectors?expand=status&expand=info``, by name."""
    return [_row(name, expanded[name]) for name in sorted(expanded) if expanded[name].get("status")]


def selected_connectors(rows: Sequence[ConnectorRow], words: str, state: str) -> list[ConnectorRow]:
    """Return the rows that have all words in name or class, and the state; ``problem``: those that do not work."""
    wanted = words.lower().split()
    return [
        each
        for each in rows
        if all(word in f"{each.name} {each.plugin}".lower() for word in wanted)
        and (not state or each.state == state or (state == "problem" and each.problem is not None))
    ]


def worker_rows(asked: Iterable[AskedWorker], expanded: Mapping[str, Mapping[str, Any]] | None) -> list[WorkerRow]:
    """Return the workers: those that were asked, and others that run something.

    Args:
        asked: what they said.
        expanded: what connectors run where; None where nobody tells.
    """
    by_address = {_address(each.url): each for each in asked}
    work: dict[str, list[str]] = {}
    for document in (expanded or {}).values():
        for part, each in parts_of(document["status"]) if document.get("status") else ():
            if each["state"] != UNASSIGNED and each.get("worker_id"):
                work.setdefault(str(each["worker_id"]), []).append(part)
    return [
        _worker(address, by_address.get(address), None if expanded is None else work.get(address, []))
        for address in sorted({*by_address, *work})
    ]


def state_grade(state: str, *, waits: bool = False) -> str:
    """Return the class of a state's badge: good, advice, bad, or nothing for what is paused or stopped."""
    if state == RUNNING:
        return "advice" if waits else "good"
    return {FAILED: "bad", UNASSIGNED: "advice", "RESTARTING": "advice"}.get(state, "")


def lasting_hindrances(status: Mapping[str, Any]) -> list[ConnectorProblem]:
    """Return what keeps parts of a connector from their work, but for those that are just being started."""
    return [each for each in hindrances(status) if not each.is_beginning]


def _row(name: str, document: Mapping[str, Any]) -> ConnectorRow:
    status = document["status"]
    config = (document.get("info") or {}).get("config") or {}
    state, tasks, hindered = str(status["connector"]["state"]), status["tasks"], lasting_hindrances(status)
    is_bad = any(each["state"] == FAILED for each in tasks)
    return ConnectorRow(
        name=name,
        type=str(status.get("type", "unknown")),
        plugin=str(config.get(CLASS_KEY, "")),
        state=state,
        grade="bad" if is_bad else state_grade(state, waits=bool(hindered)),
        running=sum(each["state"] == RUNNING for each in tasks),
        tasks=len(tasks),
        records_per_s=total(status, "records_per_second"),
        lag=total(status, "lag"),
        problem=f"{hindered[0].part}: {hindered[0].reason}" if hindered else None,
    )


def _worker(address: str, asked: AskedWorker | None, parts: list[str] | None) -> WorkerRow:
    health = "" if asked is None else asked.health
    connectors = None if parts is None else sum(each == "connector" for each in parts)
    return WorkerRow(
        address=address,
        version="" if asked is None else asked.version,
        health=health,
        grade="bad" if asked is not None and asked.problem else {"healthy": "good", "": ""}.get(health, "advice"),
        connectors=connectors,
        tasks=None if parts is None or connectors is None else len(parts) - connectors,
        problem=None if asked is None else asked.problem,
    )


def _address(url: str) -> str:
    """Return HOST:PORT of a URL, without a login that it may have."""
    return urlsplit(url).netloc.rpartition("@")[2] or url
