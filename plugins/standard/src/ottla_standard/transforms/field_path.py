"""Paths to fields: names (`field.syntax.version` V1), or names with dots between them (V2, KIP-821). Pure.

In V2, a name that itself contains dots stands in backticks, and a backtick before a dot or at the end of such a name
is escaped with a backslash.
"""

from typing import Any

from ottla_sdk import DataError, Field, Schema, Type
from ottla_standard.transforms.part import field_value


def parse_path(text: str, version: str) -> tuple[str, ...]:
    """Return the names on the way to a field.

    Args:
        text: what the user wrote.
        version: V1 or V2.

    Raises:
        ValueError: a backtick has no partner.
    """
    if version == "V1":
        return (text,)
    steps = []
    at = 0
    while at < len(text):
        if text[at] == "`":
            name, at = _quoted(text, at)
        else:
            end = text.find(".", at)
            end = len(text) if end < 0 else end
            name, at = text[at:end], end + 1
        steps.append(name)
    if text.endswith("."):
        steps.append("")
    return tuple(steps)


def _quoted(text: str, opening: int) -> tuple[str, int]:
    """Return a name in backticks, and where the next one begins."""
    name = ""
    start = at = opening + 1
    while (at := text.find("`", at)) >= 0:
        is_last = at == len(text) - 1
        if not is_last and text[at + 1] != ".":
            at += 1  # It belongs to the name.
        elif text[at - 1] == "\\":
            if is_last:
                break
            name += text[start : at - 1] + "`"
            start = at = at + 1
        else:
            return name + text[start:at], at + 2
    raise ValueError(f"the backtick at {opening} of {text!r} has no partner; escape it with a backslash before it")


def field_at(schema: Schema, path: tuple[str, ...]) -> Field | None:
    """Return the field that a path leads to; None if there is none."""
    field = None
    for name in path:
        if field is not None:
            schema = field.schema
        field = schema.field_by_name.get(name)
        if field is None:
            return None
    return field


def value_at(schema: Schema, value: dict[str, Any], path: tuple[str, ...], replace_null: bool) -> Any:
    """Return the value that a path of an existing field leads to; None if there is a null on the way."""
    *outer, last = path
    for name in outer:
        field = schema.field_by_name[name]
        found = field_value(value, field, replace_null=True)
        if found is None:
            return None
        if field.schema.type is not Type.STRUCT or not isinstance(found, dict):
            raise DataError(f"{name} on the way to {'.'.join(path)} is no struct")
        schema, value = field.schema, found
    return field_value(value, schema.field_by_name[last], replace_null)


def value_in_map(value: dict[str, Any], path: tuple[str, ...]) -> Any:
    """Return the value that a path leads to in maps; None if there is nothing on the way."""
    *outer, last = path
    for name in outer:
        found = value.get(name)
        if found is None:
            return None
        if not isinstance(found, dict):
            raise DataError(f"{name} on the way to {'.'.join(path)} is no map")
        value = found
    return value.get(last)
