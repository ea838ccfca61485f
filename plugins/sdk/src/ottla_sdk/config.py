"""Configuration of a plugin: one pydantic model, from which validation, defaults and documentation come.

    class LinesConfig(PluginConfig):
        path: Path = setting("file.path", doc="File to read.")
        rows_max: int = setting("batch.rows.max", 500, doc="Most rows in a batch.", ge=1, group="Batches")

Users write settings as strings, as Kafka Connect does; the model turns them into its types. A connector's
configuration also holds what is not the plugin's (name, converters, transforms); the model ignores that.
"""

import enum
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError
from pydantic_core import PydanticUndefined

from ottla_sdk.errors import InvalidConfig, Problem

RAISED_BY_VALIDATORS = "Value error, "
"""What pydantic puts before the message of a validator's ValueError."""


class Importance(enum.StrEnum):
    """How much a user should care about a setting."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(enum.StrEnum):
    """How wide a form's field for a setting should be."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


def _split(value: object) -> object:
    return tuple(word.strip() for word in value.split(",") if word.strip()) if isinstance(value, str) else value


CommaSeparated = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""A list of words, written with commas between them."""


def setting(
    key: str,
    default: Any = PydanticUndefined,
    *,
    doc: str,
    importance: Importance = Importance.MEDIUM,
    group: str = "",
    width: Width = Width.MEDIUM,
    display_name: str = "",
    **constraints: Any,
) -> Any:
    """Declare a setting of a `PluginConfig`.

    Args:
        key: what users write, such as ``batch.rows.max``; the unit is its last word.
        default: its default; without one the setting is required.
        doc: one or more sentences.
        importance: how much a user should care.
        group: heading under which forms and documentation show it; by default the plugin's name.
        width: how wide a form's field should be.
        display_name: the label in a form; by default the key in words.
        constraints: pydantic's: ``ge``, ``le``, ``gt``, ``lt``, ``pattern``, ``min_length``, ``max_length``.
    """
    extra: dict[str, JsonValue] = {
        "importance": importance.value,
        "group": group,
        "width": width.value,
        "display_name": display_name or key.replace(".", " ").replace("_", " ").capitalize(),
    }
    return Field(default, alias=key, description=doc, json_schema_extra=extra, **constraints)


class PluginConfig(BaseModel):
    """Base of the settings of connectors, tasks, transforms, predicates, converters and config providers."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        validate_by_alias=True,
        validate_by_name=True,
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
    )

    nested: ClassVar[Mapping[str, "type[PluginConfig]"]] = {}
    """Models of further settings by their prefix, such as ``tables.NAME.``, to describe them; a plugin that has such
    settings parses them by itself."""

    def check(self) -> Iterable[Problem]:
        """Return what is wrong with the settings taken together; each of them is known to be valid by itself.

        A plugin overrides this. It must not reach out to other systems: `Connector.check` may.
        """
        return ()

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> Self:
        """Return the configuration that users' settings say.

        Args:
            settings: values by key, usually strings; keys that are not the model's are ignored.

        Raises:
            InvalidConfig: lists everything that is wrong.
        """
        keys = cls.keys()
        try:
            parsed = cls.model_validate({key: settings[key] for key in keys if key in settings})
        except ValidationError as error:
            raise InvalidConfig(_problem(cls, each) for each in error.errors(include_url=False)) from None
        if problems := tuple(parsed.check()):
            raise InvalidConfig(problems)
        return parsed

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """Return the keys of all settings, in the order of their declaration."""
        return tuple(info.alias or name for name, info in cls.model_fields.items())


def _problem(model: type[PluginConfig], error: Any) -> Problem:
    location, message = error["loc"], error["msg"].removeprefix(RAISED_BY_VALIDATORS)
    if not location:
        return Problem("", message)
    name = str(location[0])
    info = model.model_fields.get(name)
    key = (info.alias or name) if info is not None else name
    if error["type"] == "missing":
        return Problem(key, "must be set, there is no default")
    shown = "" if info is not None and is_secret(info.annotation) else f" (got {_shown(error['input'])})"
    return Problem(key, f"{message}{shown}")


def _shown(value: object) -> str:
    return f"{value.as_posix() if isinstance(value, Path) else value!r:.120}"


def is_secret(annotation: Any) -> bool:
    """Return whether values of this type must never be shown: pydantic's SecretStr, or None beside it."""
    text = getattr(annotation, "__name__", "") + str(annotation)
    return "SecretStr" in text or "SecretBytes" in text
