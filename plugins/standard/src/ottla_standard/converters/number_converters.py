"""Numbers and booleans in the fixed sizes of Kafka's serializers: big-endian, nothing else in the value."""

import struct
from collections.abc import Sequence
from typing import Any, ClassVar

from ottla_sdk import Converter, DataError, Header, PluginConfig, Schema, SchemaAndValue, Type
from ottla_sdk.schema import BOOLEAN, FLOAT32, FLOAT64, INT16, INT32, INT64


class _NumberConverter(Converter[PluginConfig]):
    """A number of one type.

    Attributes:
        schema: what is read: the type, optional.
        layout: the bytes.
    """

    schema: ClassVar[Schema]
    layout: ClassVar[struct.Struct]

    def serialize(
        self, topic: str, schema: Schema | None, value: Any, headers: Sequence[Header] = ()
    ) -> bytes | None:
        """Return the number's bytes."""
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, self._kinds()):
            raise DataError(f"{type(self).__name__} cannot write {value!r:.80} ({type(value).__name__})")
        try:
            return self.layout.pack(value)
        except (struct.error, OverflowError):
            raise DataError(f"{value!r:.80} is out of the range of {self.schema.type}") from None

    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> SchemaAndValue:
        """Return the number."""
        if data is None:
            return SchemaAndValue(self.schema, None)
        if len(data) != self.layout.size:
            raise DataError(f"{self.schema.type} has {self.layout.size} bytes, not {len(data)}")
        return SchemaAndValue(self.schema, self.layout.unpack(data)[0])

    def _kinds(self) -> tuple[type, ...]:
        return (int, float) if self.schema.type in (Type.FLOAT32, Type.FLOAT64) else (int,)


class ShortConverter(_NumberConverter):
    """Integers of 16 bits."""

    aliases = ("org.apache.kafka.connect.converters.ShortConverter",)
    schema = INT16.as_optional()
    layout = struct.Struct(">h")


class IntegerConverter(_NumberConverter):
    """Integers of 32 bits."""

    aliases = ("org.apache.kafka.connect.converters.IntegerConverter",)
    schema = INT32.as_optional()
    layout = struct.Struct(">i")


class LongConverter(_NumberConverter):
    """Integers of 64 bits."""

    aliases = ("org.apache.kafka.connect.converters.LongConverter",)
    schema = INT64.as_optional()
    layout = struct.Struct(">q")


class FloatConverter(_NumberConverter):
    """Floating point numbers of 32 bits."""

    aliases = ("org.apache.kafka.connect.converters.FloatConverter",)
    schema = FLOAT32.as_optional()
    layout = struct.Struct(">f")


class DoubleConverter(_NumberConverter):
    """Floating point numbers of 64 bits."""

    aliases = ("org.apache.kafka.connect.converters.DoubleConverter",)
    schema = FLOAT64.as_optional()
    layout = struct.Struct(">d")


class BooleanConverter(Converter[PluginConfig]):
    """True and false, in a byte."""

    aliases = ("org.apache.kafka.connect.converters.BooleanConverter",)
    schema: ClassVar[Schema] = BOOLEAN.as_optional()

    def serialize(
        self, topic: str, schema: Schema | None, value: Any, headers: Sequence[Header] = ()
    ) -> bytes | None:
        """Return 1 for true, 0 for false."""
        if schema is not None and schema.type is not Type.BOOLEAN:
            raise DataError(f"BooleanConverter writes values of the type BOOLEAN only, not {schema.type}")
        if value is None:
            return None
        if not isinstance(value, bool):
            raise DataError(f"BooleanConverter cannot write {value!r:.80} ({type(value).__name__})")
        return b"\x01" if value else b"\x00"

    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> SchemaAndValue:
        """Return true for 1, false for 0."""
        if data is None:
            return SchemaAndValue(self.schema, None)
        if data not in (b"\x00", b"\x01"):
            raise DataError(f"BOOLEAN is one byte, 0 or 1, not {data[:16]!r}")
        return SchemaAndValue(self.schema, data == b"\x01")
