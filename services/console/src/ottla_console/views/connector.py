"""One connector: its parts with what keeps them from their work, and its settings without secrets. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla_console.views.connector_table import lasting_hindrances, state_grade
from ottla_operations.connect.connector_problems import FAILED, parts_of, shown_state
from ottla_operations.url_redaction import without_login
from ottla_sdk.kafka.secret_settings import is_secret_setting
from ottla_sdk.runtime.redaction import HIDDEN
from ottla_sdk.runtime.references import has_reference

TRACE_CHARACTERS_MAX: Final = 20_000
PASSWORD: Final = "PASSWORD"  # noqa: S105 - the name of a type
DEAD_LETTERS_KEY: Final = "errors.deadletterqueue.topic.name"
SAFE_KEYS: Final = frozenset({"name", "connector.class", "tasks.max", "topics", "topics.regex", DEAD_LETTERS_KEY})
"""What is shown of a connector whose plugin does not tell which of its settings are secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorPart:
    """The connector's own process, or a task.

    Attributes:
        number: of the task; None for the connector.
        state: for people.
        reason: what keeps it from its work, or None.
        trace: of its error, at most `TRACE_CHARACTERS_MAX`; empty without one.
    """

    title: str
    number: int | None
    state: str
    grade: str
    worker: str
    version: str
    records_per_s: float | None
    lag: int | None
    reason: str | None
    trace: str


def connector_parts(status: Mapping[str, Any]) -> list[ConnectorPart]:
    """Return the connector and its tasks."""
    reasons = {each.part: each.reason for each in lasting_hindrances(status)}
    return [_part(title, each, reasons.get(title)) for title, each in parts_of(status)]


def has_failed(status: Mapping[str, Any]) -> bool:
    """Whether the connector or one of its tasks has failed."""
    return any(each["state"] == FAILED for _, each in parts_of(status))


def secret_keys(config: Mapping[str, str], definitions: Sequence[Mapping[str, Any]] | None) -> frozenset[str]:
    """Return which settings have values that are not shown.

    Args:
        config: the settings.
        definitions: the plugin's, as ``/connector-plugins/CLASS/config`` or a validation has them; None where nobody
            tells, so that all but a few are taken for secrets.
    """
    if definitions is None:
        return frozenset(config) - SAFE_KEYS
    told = {str(each["name"]) for each in definitions if each["type"] == PASSWORD}
    return frozenset(key for key, value in config.items() if _is_secret(key, value, told))


def shown_config(config: Mapping[str, str], secrets: Collection[str]) -> dict[str, str]:
    """Return settings as they are shown, by name; the value of a secret is `HIDDEN`."""
    return {key: HIDDEN if key in secrets else config[key] for key in sorted(config)}


def dead_letter_topic(config: Mapping[str, str], type_: str) -> str | None:
    """Return the topic of a sink's dead letters; None where it has none."""
    return config.get(DEAD_LETTERS_KEY, "").strip() or None if type_ == "sink" else None


def _is_secret(key: str, value: str, told: Collection[str]) -> bool:
    if without_login(value) != value:  # a URL with a password
        return True
    return (key in told or is_secret_setting(key)) and value != "" and not has_reference(value)


def _part(title: str, document: Mapping[str, Any], reason: str | None) -> ConnectorPart:
    health = document.get("health") or {}
    trace = str(document.get("trace") or "").strip()
    is_cut = len(trace) > TRACE_CHARACTERS_MAX
    return ConnectorPart(
        title=title,
        number=document.get("id"),
        state=shown_state(document),
        grade=state_grade(str(document["state"]), waits=reason is not None),
        worker=str(document.get("worker_id") or ""),
        version=str(document.get("version") or ""),
        records_per_s=health.get("records_per_second"),
        lag=health.get("lag"),
        reason=reason,
        trace=f"{trace[:TRACE_CHARACTERS_MAX]}…" if is_cut else trace,
    )
