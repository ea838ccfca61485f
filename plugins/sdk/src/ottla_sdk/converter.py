"""Converters between values with schemas and the bytes in a topic."""

import enum
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple

from ottla_sdk.plugin import ConfigT, Plugin
from ottla_sdk.records import Header
from ottla_sdk.schema import Schema


class Role(enum.StrEnum):
    """What a converter is used for."""

    KEY = "key"
    VALUE = "value"
    HEADER = "header"


class SchemaAndValue(NamedTuple):
    """A value and its schema; the schema is None where there is none."""

    schema: Schema | None
    value: Any


NO_VALUE = SchemaAndValue(None, None)


class Converter(Plugin[ConfigT], Generic[ConfigT]):
    """Converts keys, values or headers.

    Its settings come from the connector's or the worker's, with the prefix `key.converter.`, `value.converter.` or
    `header.converter.` taken away.

    Attributes:
        role: what this instance is used for; set before `start`.
    """

    role: Role

    def start(self) -> None:
        """Get ready."""

    @abstractmethod
    def serialize(
        self, topic: str, schema: Schema | None, value: Any, headers: Sequence[Header] = ()
    ) -> bytes | None:
        """Return the bytes for a topic; None for a tombstone.

        Raises:
            DataError: the value does not fit its schema, or has none where one is needed.
            RetriableError: a schema registry cannot be reached now.
        """

    def serialize_many(
        self, topic: str, schemas: Sequence[Schema | None], values: Sequence[Any]
    ) -> Sequence[bytes | None]:
        """Return the bytes for several records without headers, in their order.

        A converter that does many at once faster than one by one overrides this. It may raise at any of them; then
        the runtime asks for each by itself. A task fails for good with results that are not as many as the records.
        """
        return [self.serialize(topic, schema, value) for schema, value in zip(schemas, values, strict=True)]

    @abstractmethod
    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> SchemaAndValue:
        """Return what the bytes of a topic say.

        Raises:
            DataError: they say nothing that this converter understands.
            RetriableError: a schema registry cannot be reached now.
        """

    def deserialize_many(self, topic: str, data: Sequence[bytes | None]) -> Sequence[tuple[Schema | None, Any]]:
        """Return what the bytes of several records without headers say, in their order.

        A converter that does many at once faster than one by one overrides this. It may raise at any of them; then
        the runtime asks for each by itself. A task fails for good with results that are not as many as the records.
        """
        return [self.deserialize(topic, each) for each in data]

    def serialize_header(self, topic: str, header: Header) -> bytes | None:
        """Return the bytes for a header."""
        return self.serialize(topic, header.schema, header.value)

    def deserialize_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        """Return what the bytes of the header `key` say."""
        del key
        return self.deserialize(topic, data)

    def close(self) -> None:
        """Give back what was opened."""
