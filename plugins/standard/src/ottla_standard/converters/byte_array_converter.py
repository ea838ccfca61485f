"""Bytes as they are."""

from collections.abc import Sequence
from typing import Any

from ottla_sdk import Converter, DataError, Header, PluginConfig, Schema, SchemaAndValue, Type
from ottla_sdk.schema import BYTES

_OPTIONAL_BYTES = BYTES.as_optional()


class ByteArrayConverter(Converter[PluginConfig]):
    """Hands bytes through; refuses what is not bytes."""

    aliases = ("org.apache.kafka.connect.converters.ByteArrayConverter",)

    def serialize(
        self, topic: str, schema: Schema | None, value: Any, headers: Sequence[Header] = ()
    ) -> bytes | None:
        """Return the bytes."""
        if schema is not None and schema.type is not Type.BYTES:
            raise DataError(f"ByteArrayConverter writes values of the type BYTES only, not {schema.type}")
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise DataError(f"ByteArrayConverter writes bytes only, not {value!r:.80} ({type(value).__name__})")

    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> SchemaAndValue:
        """Return the bytes."""
        return SchemaAndValue(_OPTIONAL_BYTES, data)
