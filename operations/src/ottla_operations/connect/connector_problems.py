"""What keeps connectors and their tasks from their work, as statuses of Connect workers say it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

FAILED = "FAILED"
WAITING = "WAITING"
RUNNING = "RUNNING"
UNASSIGNED = "UNASSIGNED"


@dataclass(frozen=True, slots=True)
class ConnectorProblem:
    """A part of a connector that does not do its work.

    Attributes:
        part: ``connector`` or ``task 0``.
        reason: why not.
        since_ms: since when, in milliseconds since 1970; None if it is not known.
        next_try_ms: when it is tried again, likewise.
        is_beginning: whether it has not worked so far, and may do so in a moment.
    """

    part: str
    reason: str
    since_ms: int | None = None
    next_try_ms: int | None = None
    is_beginning: bool = False


def parts_of(status: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the connector and its tasks, each with its name."""
    return [("connector", status["connector"]), *((f"task {each['id']}", each) for each in status["tasks"])]


def hindrances(status: Mapping[str, Any]) -> list[ConnectorProblem]:
    """Return which parts of a connector should work and do not; paused and stopped ones should not."""
    return [found for part, each in parts_of(status) if (found := _hindrance(part, each)) is not None]


def shown_state(part: Mapping[str, Any]) -> str:
    """Return a part's state for people: one that runs but waits says so."""
    waits = part["state"] == RUNNING and (part.get("health") or {}).get("state") == WAITING
    return "RUNNING, waiting" if waits else str(part["state"])


def total(status: Mapping[str, Any], reading: str) -> float | int | None:
    """Return the sum of a reading over all tasks; None if none has it."""
    found = [value for each in status["tasks"] if (value := (each.get("health") or {}).get(reading)) is not None]
    return sum(found) if found else None


def hindrance_lines(statuses: Iterable[Mapping[str, Any]], now_ms: float) -> Iterator[str]:
    """Return a line for each part that does not do its work."""
    for status in statuses:
        for each in hindrances(status):
            yet = " yet" if each.is_beginning else ""
            yield f"{status['name']}, {each.part}, does not work{yet}{_times(each, now_ms)}: {each.reason}"


def _hindrance(part: str, document: Mapping[str, Any]) -> ConnectorProblem | None:
    health = document.get("health") or {}
    if document["state"] == FAILED:
        reason = health.get("reason") or (document.get("trace") or "it has failed").strip().partition("\n")[0]
        return ConnectorProblem(part, reason, next_try_ms=health.get("next_try_ms"))
    if document["state"] == UNASSIGNED:
        return ConnectorProblem(part, "it is still being started", is_beginning=True)
    if document["state"] == RUNNING and health.get("state") == WAITING:
        return ConnectorProblem(
            part, health.get("reason") or "it waits", health.get("since_ms"), health.get("next_try_ms")
        )
    return None


def _times(hindrance: ConnectorProblem, now_ms: float) -> str:
    words = ""
    if hindrance.since_ms is not None:
        words += f" for {_duration((now_ms - hindrance.since_ms) / 1000)}"
    if hindrance.next_try_ms is not None:
        left_s = (hindrance.next_try_ms - now_ms) / 1000
        words += f", next try in {_duration(left_s)}" if left_s > 0 else ", tries again"
    return words


def _duration(seconds: float) -> str:
    """Return a time as people say it, such as ``40 s`` or ``3 min``."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
