"""What somebody typed to create a topic or to change a setting, checked before a cluster is asked. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
PARTITIONS_MAX: Final = 10_000
REPLICAS_MAX: Final = 100
NUMBERS_OF_BROKERS: Final = -1


class BadField(ValueError):
    """A field cannot be used; the message says what to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopicForm:
    """A topic to create; -1 stands for what the brokers' settings say."""

    name: str
    partitions: int = NUMBERS_OF_BROKERS
    replicas: int = NUMBERS_OF_BROKERS
    settings: Mapping[str, str] = field(default_factory=dict)


def new_topic(form: Mapping[str, str]) -> NewTopicForm:
    """Return the topic that a form describes.

    Raises:
        BadField: names the field.
    """
    name = form.get("name", "").strip()
    if NAME.fullmatch(name) is None or name in (".", ".."):
        raise BadField("Name: letters, digits, '.', '_' and '-', at most 249")
    settings = {}
    if policy := form.get("cleanup", ""):
        settings["cleanup.policy"] = policy
    if (hours := form.get("retention_hours", "").strip()) != "":
        settings["retention.ms"] = str(_number(hours, "Retention", 1, 1_000_000) * 3_600_000)
    return NewTopicForm(
        name=name,
        partitions=_optional_number(form.get("partitions", ""), "Partitions", PARTITIONS_MAX),
        replicas=_optional_number(form.get("replicas", ""), "Replicas", REPLICAS_MAX),
        settings=settings,
    )


def _optional_number(text: str, what: str, most: int) -> int:
    return NUMBERS_OF_BROKERS if not text.strip() else _number(text.strip(), what, 1, most)


def _number(text: str, what: str, least: int, most: int) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 12 or not least <= int(text) <= most:
        raise BadField(f"{what}: a whole number from {least} to {most:,}")
    return int(text)
