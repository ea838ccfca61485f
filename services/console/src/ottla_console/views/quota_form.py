"""Quotas as a page lists them, and the form that sets one. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla_operations.quotas.client_quotas import Entity, shown

KINDS: Final = {"user": "User", "client-id": "Client id", "ip": "Address"}
NAMES: Final = {
    "producer_byte_rate": "bytes that are produced, per second",
    "consumer_byte_rate": "bytes that are fetched, per second",
    "request_percentage": "time of brokers, in percent of one core",
    "controller_mutation_rate": "partitions created and deleted, per second",
    "connection_creation_rate": "connections, per second (of addresses)",
}
"""Kafka's names of quotas, with what they limit."""
DEFAULT: Final = "default"
NAMED: Final = "named"
NAME_CHARACTERS_MAX: Final = 1000


class BadQuota(ValueError):
    """A field cannot be used; the message says what to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRow:
    """One quota: whose it is in words and as fields of the form, its name, and how much a second."""

    whose: str
    fields: Mapping[str, str]
    name: str
    value: float


def quota_rows(quotas: Mapping[Entity, Mapping[str, float]], words: str) -> list[QuotaRow]:
    """Return the quotas whose owner or name has all of some words, by owner."""
    rows = [
        QuotaRow(whose=shown(entity), fields=entity_fields(entity), name=name, value=value)
        for entity, values in quotas.items()
        for name, value in values.items()
    ]
    wanted = words.lower().split()
    found = [row for row in rows if all(word in f"{row.whose} {row.name}".lower() for word in wanted)]
    return sorted(found, key=lambda row: (row.whose, row.name))


def entity_fields(entity: Entity) -> dict[str, str]:
    """Return the form's fields that say whose a quota is."""
    fields: dict[str, str] = {}
    for kind, name in entity:
        fields[f"{kind}-is"] = DEFAULT if name is None else NAMED
        if name is not None:
            fields[kind] = name
    return fields


def typed_entity(form: Mapping[str, str]) -> Entity:
    """Return whose quota a form means.

    Raises:
        BadQuota: it names nobody, or kinds that do not go together.
    """
    parts: list[tuple[str, str | None]] = []
    for kind, title in KINDS.items():
        match form.get(f"{kind}-is", ""):
            case "":
                continue
            case "default":
                parts.append((kind, None))
            case "named":
                name = form.get(kind, "").strip()
                if not name or len(name) > NAME_CHARACTERS_MAX:
                    raise BadQuota(f"{title}: type a name, or choose the default")
                parts.append((kind, name))
            case _:
                raise BadQuota(f"{title}: one of the list")
    kinds = {kind for kind, _ in parts}
    if not parts:
        raise BadQuota("choose a user, a client id, both, or an address")
    if "ip" in kinds and len(kinds) > 1:
        raise BadQuota("Address: a quota of an address has no user or client id")
    return tuple(parts)


def typed_quota(form: Mapping[str, str]) -> tuple[str, float]:
    """Return the quota's name and value that a form has.

    Raises:
        BadQuota: names the field.
    """
    name, text = form.get("name", ""), form.get("value", "").strip()
    if name not in NAMES:
        raise BadQuota("Quota: one of the list")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if len(text) > 40 or not math.isfinite(value) or value <= 0:
        raise BadQuota("Value: a number above 0")
    return name, value
