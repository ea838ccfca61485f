"""The newest records of the console's audit log. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla_console.views.message_field import escaped

ALWAYS: Final = frozenset({"time", "user", "cluster", "action", "target", "outcome"})
TEXT_CHARACTERS_MAX: Final = 300
GRADES: Final = {"done": "good", "failed": "bad", "refused": "advice"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """A record; `details` is what else stands in it."""

    time: str
    user: str
    action: str
    target: str
    outcome: str
    grade: str
    details: str


def audit_rows(records: Iterable[Mapping[str, Any]], user: str | None) -> list[AuditRow]:
    """Return records as rows; of one user only, or None for all."""
    return [_row(each) for each in records if user is None or each["user"] == user]


def _row(record: Mapping[str, Any]) -> AuditRow:
    details = {name: value for name, value in record.items() if name not in ALWAYS and value is not None}
    return AuditRow(
        time=record["time"][:23].replace("T", " "),
        user=_cut(record["user"]),
        action=record["action"],
        target=_cut(record["target"]),
        outcome=record["outcome"],
        grade=GRADES[record["outcome"]],
        details=_cut(json.dumps(details, ensure_ascii=False, default=str)) if details else "",
    )


def _cut(text: str) -> str:
    return escaped(text[:TEXT_CHARACTERS_MAX]) + ("…" if len(text) > TEXT_CHARACTERS_MAX else "")
