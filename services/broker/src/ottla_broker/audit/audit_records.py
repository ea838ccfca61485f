"""What a record of the audit log says. Pure.

A record is one line of JSON. What clients chose (names, client ids) is cut to a bounded length, and JSON escapes what
could be taken for the end of a line. Values of settings, passwords and tokens are never in a record.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from ottla_core.wire.messages import api_name

TEXT_CHARACTERS_MAX: Final = 300
RESOURCES_MAX: Final = 100


class AuditKind(Enum):
    """What a record is about."""

    DENIAL = "denial"
    ADMINISTRATION = "administration"
    DATA = "data"


class AuditResult(Enum):
    """What became of a request.

    `UNANSWERED`: the client left before the response, so the request may or may not have taken effect.
    """

    ALLOWED = "allowed"
    DENIED = "denied"
    DONE = "done"
    FAILED = "failed"
    UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who made a request, by which way.

    Attributes:
        principal: as TYPE:NAME.
        address: of the client, without its port.
        listener: the name of the listener.
        client_id: as the client calls itself.
        api_key: of the request.
    """

    principal: str
    address: str
    listener: str
    client_id: str
    api_key: int


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One record.

    Attributes:
        time_ms: milliseconds since the epoch.
        kind: what it is about.
        caller: who did it.
        resources: each as TYPE:NAME; of changes, what is known of these besides.
        result: what became of it.
        operation: that was asked for; empty for administrative requests, whose API says it.
        errors: how often each error is in the response.
        resources_left_out: how many more resources the request was about.
    """

    time_ms: int
    kind: AuditKind
    caller: Caller
    resources: Sequence[str]
    result: AuditResult
    operation: str = ""
    errors: Mapping[str, int] | None = None
    resources_left_out: int = 0


def bounded(texts: Sequence[str]) -> tuple[str, ...]:
    """Return as many texts of clients, and as much of each, as a record keeps."""
    return tuple(map(cut, texts[:RESOURCES_MAX]))


def fields_of(record: AuditRecord) -> dict[str, object]:
    """Return a record as JSON has it; what is empty is left out."""
    caller = record.caller
    fields: dict[str, object] = {
        "time": _iso(record.time_ms),
        "kind": record.kind.value,
        "principal": caller.principal,
        "address": caller.address,
        "listener": caller.listener,
        "client_id": caller.client_id,
        "api": api_name(caller.api_key),
        "operation": record.operation,
        "resources": list(record.resources),
        "resources_left_out": record.resources_left_out,
        "result": record.result.value,
        "errors": dict(record.errors or {}),
    }
    return {name: value for name, value in fields.items() if value or name in ("client_id", "resources")}


def fields_of_dropped(time_ms: int, dropped: Mapping[AuditKind, int]) -> dict[str, object]:
    """Return the record that tells how many records of each kind are missing since the one before."""
    counts = {kind.value: count for kind, count in dropped.items() if count}
    return {"time": _iso(time_ms), "kind": "dropped", "dropped": counts}


def line(fields: Mapping[str, object]) -> bytes:
    """Return a record as a line of the file."""
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _iso(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def cut(text: str) -> str:
    """Return as much of a text of a client as a record keeps."""
    return text if len(text) <= TEXT_CHARACTERS_MAX else f"{text[:TEXT_CHARACTERS_MAX]}…"
