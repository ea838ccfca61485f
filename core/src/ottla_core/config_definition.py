"""What is known of one setting: its name, how its values are written and checked, and what it falls back to. Pure.

Settings of topics, groups and brokers are listed as definitions; errors are worded as Kafka's.

Source: Kafka's ConfigDef (4.x).
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ottla_core.errors import InvalidConfig

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
EVERYTHING: Final = frozenset({"*"})
"""As a list of replicas: all of them."""


class ConfigType(StrEnum):
    """How a setting's value is written; the names are those of Kafka's DescribeConfigs."""

    BOOLEAN = "boolean"
    STRING = "string"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class BrokerSynonym:
    """A broker setting that provides a topic setting's default; `factor` converts its unit."""

    name: str
    factor: int = 1


@dataclass(frozen=True, slots=True)
class ConfigDefinition:
    """What is known of one topic setting.

    Attributes:
        name: Kafka's name, such as `retention.ms`.
        type: how values are written.
        minimum: smallest allowed number, or None.
        maximum: largest allowed number, or None.
        choices: allowed words, or None.
        pattern: what each word of a list must look like, or None.
        form: the pattern in words, for the error.
        synonyms: broker settings it falls back to, the most specific first.
        documentation: one sentence with the unit.
    """

    name: str
    type: ConfigType
    minimum: float | None
    maximum: float | None
    choices: tuple[str, ...] | None
    synonyms: tuple[BrokerSynonym, ...]
    documentation: str
    pattern: str | None = None
    form: str = ""

    @property
    def attribute(self) -> str:
        """Name of the `TopicConfig` field."""
        return self.name.replace(".", "_")

    def parse(self, text: str) -> object:
        """Return the typed value.

        Raises:
            InvalidConfig: the text is no value of this setting; the message is Kafka's form.
        """
        try:
            value = _PARSERS[self.type](text.strip())
        except ValueError:
            expected = (
                "Expected value to be either true or false"
                if self.type is ConfigType.BOOLEAN
                else f"Not a number of type {self.type.name}"
            )
            raise InvalidConfig(f"Invalid value {text} for configuration {self.name}: {expected}") from None
        self._check(text, value)
        return value

    def _check(self, text: str, value: object) -> None:
        problem = ""
        if isinstance(value, int | float):
            if self.minimum is not None and value < self.minimum:
                problem = f"Value must be at least {self.minimum}"
            elif self.maximum is not None and value > self.maximum:
                problem = f"Value must be no more than {self.maximum}"
        elif self.choices is not None:
            words: Iterable[object] = value if isinstance(value, frozenset) else (value,)
            if not value or any(word not in self.choices for word in words):
                problem = f"String must be one of: {', '.join(self.choices)}"
        elif isinstance(value, frozenset) and value != EVERYTHING and not self._have_form(value):
            problem = f"{self.name} must be the literal '*' or {self.form}"
        if problem:
            raise InvalidConfig(f"Invalid value {text} for configuration {self.name}: {problem}")

    def _have_form(self, words: Iterable[str]) -> bool:
        return self.pattern is None or all(re.fullmatch(self.pattern, word) for word in words)

    def format(self, value: object) -> str:
        """Return the text Kafka shows for a typed value."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, frozenset):
            return ",".join(sorted(value))
        return str(value)


def _parse_boolean(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError(text)
    return text.lower() == "true"


def _parse_double(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


_PARSERS: Mapping[ConfigType, Callable[[str], object]] = {
    ConfigType.BOOLEAN: _parse_boolean,
    ConfigType.STRING: str,
    ConfigType.INT: int,
    ConfigType.LONG: int,
    ConfigType.DOUBLE: _parse_double,
    ConfigType.LIST: lambda text: frozenset(word.strip() for word in text.split(",") if word.strip()),
}
