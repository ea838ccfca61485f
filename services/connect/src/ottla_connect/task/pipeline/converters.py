"""Makes the converters of a task: the connector's, or else the worker's.

As in Kafka Connect, a connector that names a converter's class brings all of its settings too (`value.converter.*`);
one that does not gets the worker's converter with the worker's settings.
"""

from collections.abc import Mapping, Sized
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from ottla_sdk import Converter, FatalError, Role, class_name
from ottla_sdk.file_policy import of_worker
from ottla_sdk.runtime.plugin_lookup import PluginLookup

DEFAULT_CLASSES = {
    Role.KEY: "JsonConverter",
    Role.VALUE: "JsonConverter",
    Role.HEADER: "SimpleHeaderConverter",
}


class WrongCount(FatalError):
    """A converter has returned another number of results than it was given records."""


def check_count(converter: Converter[Any], topic: str, results: Sized, count: int) -> None:
    """See that a converter has returned a result for each of so many records.

    Raises:
        WrongCount: it has not, so nobody knows which result belongs to which record.
    """
    if len(results) != count:
        raise WrongCount(
            f"{class_name(type(converter))} as {converter.role.value}.converter has returned {len(results)}"
            f" results for {count} records of topic {topic}; it must return one for each"
        )


@dataclass(frozen=True, slots=True)
class ChosenConverter:
    """The class name of a converter and its settings, and whether the worker has chosen it, not the connector."""

    class_name: str
    settings: Mapping[str, str]
    is_workers: bool


def choose(role: Role, connector: Mapping[str, str], worker: Mapping[str, str]) -> ChosenConverter:
    """Return which converter a connector has in a role."""
    key = f"{role.value}.converter"
    is_workers = not connector.get(key, "").strip()
    source = worker if is_workers else connector
    name = source.get(key, "").strip() or DEFAULT_CLASSES[role]
    prefix = f"{key}."
    return ChosenConverter(
        name,
        {each.removeprefix(prefix): value for each, value in source.items() if each.startswith(prefix)},
        is_workers,
    )


def make_converter(
    role: Role, connector: Mapping[str, str], worker: Mapping[str, str], lookup: PluginLookup
) -> Converter[Any]:
    """Return a converter that is ready to convert.

    Raises:
        PluginNotFound: there is no such class.
        InvalidConfig: its settings are wrong.
    """
    chosen = choose(role, connector, worker)
    found = lookup.find(chosen.class_name, Converter, is_workers=chosen.is_workers)  # type: ignore[type-abstract]
    converter = found()
    converter.role = role
    with of_worker() if chosen.is_workers else nullcontext():
        converter.configure(chosen.settings)
        converter.start()
    return converter


@dataclass(frozen=True, slots=True)
class Converters:
    """The three converters of a task."""

    key: Converter[Any]
    value: Converter[Any]
    header: Converter[Any]

    @classmethod
    def make(cls, connector: Mapping[str, str], worker: Mapping[str, str], lookup: PluginLookup) -> "Converters":
        """Make them; raises as `make_converter` does."""
        return cls(*(make_converter(role, connector, worker, lookup) for role in (Role.KEY, Role.VALUE, Role.HEADER)))

    def close(self) -> None:
        """Give back what they have opened."""
        for each in (self.key, self.value, self.header):
            each.close()
