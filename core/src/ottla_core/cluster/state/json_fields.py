"""JSON objects in etcd, read field by field with types checked; what is wrong is refused with the key's name."""

import json
from collections.abc import Callable, Mapping
from typing import TypeVar
from uuid import UUID

from ottla_core.errors import OttlaError

FORMAT = "format"
FIRST_FORMAT = 1

Json = Mapping[str, object]
Value = TypeVar("Value")


def json_bytes(value: Json) -> bytes:
    """Return an object as etcd has it."""
    return json.dumps(value, separators=(",", ":")).encode()


class BadValue(OttlaError):
    """A value in etcd is not what its key promises; the message names the key and the field."""


class UnknownFormat(BadValue):
    """A value in etcd has the format of a later release, which this one must not guess at."""


class JsonFields:
    """One JSON object.

    Every method raises `BadValue` if the field is missing or of another type.

    Args:
        where: the key, for messages.
        value: the bytes of the object, or an object within another one.

    Raises:
        BadValue: this is no JSON object.
        UnknownFormat: it has the format of a later release.

    Attributes:
        json: all of it.
    """

    def __init__(self, where: str, value: object) -> None:
        self._where = where
        try:
            parsed = json.loads(value) if isinstance(value, bytes) else value
        except ValueError:
            size = len(value) if isinstance(value, bytes) else 0
            raise BadValue(f"{where}: not JSON, {size} bytes") from None  # which may hold more than is to be told
        if not isinstance(parsed, dict):
            raise BadValue(f"{where}: not a JSON object but {type(parsed).__name__}")
        if (found := parsed.get(FORMAT, FIRST_FORMAT)) != FIRST_FORMAT:
            raise UnknownFormat(f"{where}: of format {found!r}, and this release reads format {FIRST_FORMAT}")
        self.json: Json = parsed

    def integer(self, name: str, default: int | None = None) -> int:
        """Return a number; a default stands for a field that is not there."""
        if default is not None and name not in self.json:
            return default
        return self._read(name, _integer)

    def integers(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Return a list of numbers; a default stands for a field that is not there."""
        if default is not None and name not in self.json:
            return default
        return tuple(_integer(f"{self._where}.{name}", item) for item in self.items(name))

    def text(self, name: str) -> str:
        """Return a string."""
        return self._read(name, _text)

    def texts(self, name: str) -> Mapping[str, str]:
        """Return an object of strings."""
        return {key: _text(f"{self._where}.{name}.{key}", item) for key, item in self._object(name).items()}

    def integers_by_name(self, name: str) -> Mapping[str, int]:
        """Return an object of numbers."""
        return {key: _integer(f"{self._where}.{name}.{key}", item) for key, item in self._object(name).items()}

    def numbers_by_name(self, name: str) -> Mapping[str, float]:
        """Return an object of numbers that need not be whole."""
        return {key: _float(f"{self._where}.{name}.{key}", item) for key, item in self._object(name).items()}

    def pairs_by_name(self, name: str) -> Mapping[str, tuple[int, int]]:
        """Return an object of pairs of numbers."""
        return {key: _pair(f"{self._where}.{name}.{key}", item) for key, item in self._object(name).items()}

    def _object(self, name: str) -> dict[str, object]:
        found = self.json.get(name)
        if not isinstance(found, dict):
            raise BadValue(f"{self._where}.{name}: not an object: {found!r}")
        return found

    def list_of_texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings."""
        return tuple(_text(f"{self._where}.{name}", item) for item in self.items(name))

    def uuid(self, name: str) -> UUID:
        """Return a UUID."""
        return self._read(name, _uuid)

    def uuids(self, name: str) -> tuple[UUID, ...]:
        """Return a list of UUIDs."""
        return tuple(_uuid(f"{self._where}.{name}", item) for item in self.items(name))

    def flag(self, name: str) -> bool:
        """Return a truth value; a writer that did not know the field meant no."""
        found = self.json.get(name, False)
        if not isinstance(found, bool):
            raise BadValue(f"{self._where}.{name}: neither true nor false: {found!r}")
        return found

    def items(self, name: str) -> list[object]:
        """Return a list of anything."""
        found = self.json.get(name)
        if not isinstance(found, list):
            raise BadValue(f"{self._where}.{name}: not a list: {found!r}")
        return found

    def _read(self, name: str, reader: Callable[[str, object], Value]) -> Value:
        return reader(f"{self._where}.{name}", self.json.get(name))


def _integer(where: str, item: object) -> int:
    if not isinstance(item, int) or isinstance(item, bool):
        raise BadValue(f"{where}: not an integer: {item!r}")
    return item


def _float(where: str, item: object) -> float:
    if not isinstance(item, int | float) or isinstance(item, bool):
        raise BadValue(f"{where}: not a number: {item!r}")
    return float(item)


def _pair(where: str, item: object) -> tuple[int, int]:
    if not isinstance(item, list) or len(item) != 2:
        raise BadValue(f"{where}: not a pair: {item!r}")
    return _integer(where, item[0]), _integer(where, item[1])


def _text(where: str, item: object) -> str:
    if not isinstance(item, str):
        raise BadValue(f"{where}: not a string: {item!r}")
    return item


def _uuid(where: str, item: object) -> UUID:
    try:
        return UUID(_text(where, item))
    except ValueError:
        raise BadValue(f"{where}: not a UUID: {item!r}") from None
