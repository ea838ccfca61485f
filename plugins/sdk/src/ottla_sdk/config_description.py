"""What a configuration model says about itself: for Kafka Connect's REST API, for validation, for documentation."""

import enum
import re
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import SecretBytes, SecretStr
from pydantic.fields import FieldInfo

from ottla_sdk.config import PluginConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDescription:
    """One setting; the attributes are those of a Kafka Connect `ConfigKeyInfo`.

    Attributes:
        key: what users write.
        type: BOOLEAN, STRING, LONG, DOUBLE, LIST or PASSWORD.
        required: whether there is no default.
        default: the default as users would write it; None if there is none.
        importance: HIGH, MEDIUM or LOW.
        documentation: what it is for.
        group: heading under which it is shown; empty for the plugin's own.
        order_in_group: its place below that heading, from 1.
        width: NONE, SHORT, MEDIUM or LONG.
        display_name: a label.
        allowed_values: the only values there are; empty if there are others.
        constraints: what values must obey, in words, such as ``at least 1``; empty if anything goes.
    """

    key: str
    type: str
    required: bool
    default: str | None
    importance: str
    documentation: str
    group: str
    order_in_group: int
    width: str
    display_name: str
    allowed_values: tuple[str, ...]
    constraints: str


def describe(model: type[PluginConfig]) -> list[SettingDescription]:
    """Return the description of every setting of a model, in the order of their declaration; nested ones follow."""
    nested = [
        replace(each, key=prefix + each.key, group=f"{prefix}…", order_in_group=order)
        for prefix, below in model.nested.items()
        for order, each in enumerate(_describe(below), 1)
    ]
    return _describe(model) + nested


def _describe(model: type[PluginConfig]) -> list[SettingDescription]:
    orders: dict[str, int] = {}
    described = []
    for name, info in model.model_fields.items():
        extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
        group = str(extra.get("group", ""))
        orders[group] = orders.get(group, 0) + 1
        kind, allowed = _type(info.annotation)
        described.append(
            SettingDescription(
                key=info.alias or name,
                type=kind,
                required=info.is_required(),
                default=None if info.is_required() else as_text(info.get_default(call_default_factory=True)),
                importance=str(extra.get("importance", "MEDIUM")),
                documentation=info.description or "",
                group=group,
                order_in_group=orders[group],
                width=str(extra.get("width", "MEDIUM")),
                display_name=str(extra.get("display_name", name)),
                allowed_values=allowed,
                constraints=", ".join(_constraints(info)),
            )
        )
    return described


def as_text(value: Any) -> str | None:
    """Return a setting's value as users write it; secrets come out as stars."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(as_text(each) or "" for each in value)
    if isinstance(value, SecretStr | SecretBytes):
        return "********"
    if isinstance(value, re.Pattern):
        return str(value.pattern)
    return value.as_posix() if isinstance(value, Path) else str(value)


_SCALARS: tuple[tuple[type, str], ...] = (
    (bool, "BOOLEAN"),
    (int, "LONG"),
    (float, "DOUBLE"),
    (SecretStr, "PASSWORD"),
    (SecretBytes, "PASSWORD"),
    (list, "LIST"),
    (tuple, "LIST"),
    (set, "LIST"),
    (frozenset, "LIST"),
)


def _type(annotation: Any) -> tuple[str, tuple[str, ...]]:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _type(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return _type(next(each for each in typing.get_args(annotation) if each is not type(None)))
    if origin is Literal:
        return "STRING", tuple(map(str, typing.get_args(annotation)))
    kind = origin if isinstance(origin, type) else annotation
    if isinstance(kind, type):
        if issubclass(kind, enum.Enum):
            return "STRING", tuple(str(each.value) for each in kind)
        for scalar, name in _SCALARS:
            if issubclass(kind, scalar):
                return name, ()
    return "STRING", ()


_CONSTRAINT_WORDS = (
    ("ge", "at least"),
    ("gt", "more than"),
    ("le", "at most"),
    ("lt", "less than"),
    ("min_length", "of length at least"),
    ("max_length", "of length at most"),
    ("pattern", "matching"),
)


def _constraints(info: FieldInfo) -> Iterator[str]:
    for each in info.metadata:
        for attribute, words in _CONSTRAINT_WORDS:
            if (bound := getattr(each, attribute, None)) is not None:
                yield f"{words} {bound}"
