"""Documentation of plugin classes in Markdown, out of their docstrings and configuration models."""

import inspect
from collections.abc import Iterable
from typing import Any

from ottla_sdk.config import PluginConfig
from ottla_sdk.config_description import SettingDescription, describe
from ottla_sdk.plugin import Plugin, class_name

_TYPES = {
    "BOOLEAN": "true or false",
    "STRING": "text",
    "LONG": "whole number",
    "DOUBLE": "number",
    "LIST": "list",
    "PASSWORD": "secret",
}


def plugin_text(plugin: type[Plugin[Any]]) -> str:
    """Return what a class is for, and under which names configurations find it."""
    described = inspect.cleandoc(inspect.getdoc(plugin) or "")
    return "\n\n".join(part for part in (described, names_text([plugin])) if part)


def names_text(plugins: Iterable[type[Plugin[Any]]]) -> str:
    """Return under which names configurations find classes."""
    lines = []
    for plugin in plugins:
        others = [f"`{alias}`" for alias in plugin.aliases if alias != plugin.__name__]
        also = f", also known as {', '.join(others)}" if others else ""
        lines.append(f"`{class_name(plugin)}`{also}.")
    return "\n\n".join(lines)


def settings_text(model: type[PluginConfig], *, level: int = 3) -> str:
    """Return a table of a model's settings, one for each group with a heading of this level."""
    groups: dict[str, list[SettingDescription]] = {}
    for each in describe(model):
        groups.setdefault(each.group, []).append(each)
    if not groups:
        return "It has no settings."
    parts = []
    for group, settings in groups.items():
        if group:
            parts.append(f"{'#' * level} {group}")
        head = "| setting | type | default | |\n|---|---|---|---|"
        parts.append("\n".join([head, *map(_row, settings)]))
    return "\n\n".join(parts)


def _row(setting: SettingDescription) -> str:
    kind = " or ".join(f"`{value}`" for value in setting.allowed_values) or _TYPES[setting.type]
    constraints = f" ({setting.constraints})" if setting.constraints else ""
    default = "**required**" if setting.required else _code(setting.default)
    return f"| `{setting.key}` | {_cell(kind + constraints)} | {default} | {_prose(setting.documentation)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def _code(text: str | None) -> str:
    return f"`{_cell(text)}`" if text else ""


def _prose(text: str) -> str:
    # Between backticks everything stands for itself; elsewhere a star would begin emphasis.
    spans = _cell(text).split("`")
    return "`".join(span if number % 2 else span.replace("*", r"\*") for number, span in enumerate(spans))
