"""JSON with or without schemas: Kafka Connect's usual converter.

With `schemas.enable` each value is an envelope, `{"schema": …, "payload": …}`; its two halves are taken apart without
looking into them, so that a schema seen before costs one look-up by its text. Without, a value is plain JSON, and
msgspec does nearly all of the work.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from pydantic import BeforeValidator

from ottla_sdk import (
    NO_VALUE,
    Converter,
    DataError,
    Header,
    Importance,
    PluginConfig,
    Schema,
    SchemaAndValue,
    setting,
)
from ottla_sdk.schema_cache import SchemaCache
from ottla_standard.converters import json_schema
from ottla_standard.converters.json_payload import Read, Rules, Write, compile_reader, compile_writer, float_to_json

_UpperCase = BeforeValidator(lambda value: value.upper() if isinstance(value, str) else value)


class JsonConverterConfig(PluginConfig):
    """Settings of `JsonConverter`; the same as Kafka Connect's."""

    schemas_enable: bool = setting(
        "schemas.enable",
        True,
        doc="Whether each value carries its schema, in an envelope of `schema` and `payload`. "
        "Plain JSON needs `false`.",
        importance=Importance.HIGH,
        group="Schemas",
    )
    schemas_cache_size: int = setting(
        "schemas.cache.size",
        1000,
        doc="How many schemas this converter remembers, in each direction.",
        importance=Importance.HIGH,
        group="Schemas",
        ge=1,
    )
    decimal_format: Annotated[Literal["BASE64", "NUMERIC"], _UpperCase] = setting(
        "decimal.format",
        "BASE64",
        doc="How decimals are written: BASE64, the bytes of the unscaled number, or NUMERIC, a JSON number. "
        "Both are read.",
        importance=Importance.LOW,
        group="Serialization",
    )
    replace_null_with_default: bool = setting(
        "replace.null.with.default",
        True,
        doc="Whether a field's default stands for a null in it. Otherwise the null stays.",
        importance=Importance.LOW,
        group="Serialization",
    )


class _Envelope(msgspec.Struct, forbid_unknown_fields=True):
    schema: msgspec.Raw
    payload: msgspec.Raw


class _Known(NamedTuple):
    """A schema that was read, and what reads its values."""

    schema: Schema | None
    read: Read


class _Written(NamedTuple):
    """An envelope's beginning, up to the payload, and what writes values of its schema."""

    opening: bytes
    write: Write


_NO_SCHEMA_OPENING = b'{"schema":null,"payload":'
_new = tuple.__new__
_decode_envelope = msgspec.json.Decoder(_Envelope).decode


class JsonConverter(Converter[JsonConverterConfig]):
    """JSON, with schemas or without."""

    config_model = JsonConverterConfig
    aliases = ("org.apache.kafka.connect.json.JsonConverter",)

    _decode: Callable[[bytes | msgspec.Raw], Any]
    _encode: Callable[[Any], bytes]

    def start(self) -> None:
        """Make the caches; schemas are compiled when they first come."""
        config = self.config
        self._schemas_enable = config.schemas_enable
        self._rules = Rules(
            replace_null=config.replace_null_with_default,
            numeric_decimals=config.decimal_format == "NUMERIC",
        )
        self._decode = msgspec.json.Decoder().decode
        self._encode = msgspec.json.Encoder(
            decimal_format="number" if self._rules.numeric_decimals else "string"
        ).encode
        self._learn = lru_cache(config.schemas_cache_size)(self._learned)
        self._written = SchemaCache(self._compile, config.schemas_cache_size)

    def serialize(
        self, topic: str, schema: Schema | None, value: Any, headers: Sequence[Header] = ()
    ) -> bytes | None:
        """Return JSON; a record without value and schema is a tombstone, a null of a schema is JSON's null."""
        if schema is None:
            if value is None:
                return None
            text = self._encode_any(value)
            return _NO_SCHEMA_OPENING + text + b"}" if self._schemas_enable else text
        written = self._written.get(schema)
        text = self._encode(written.write(value))
        return written.opening + text + b"}" if self._schemas_enable else text

    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> SchemaAndValue:
        """Return what JSON says; nothing at all is a tombstone, so is an empty text where there are no schemas."""
        if data is None:
            return NO_VALUE
        try:
            if not self._schemas_enable:
                # As SchemaAndValue(...), in half of the time.
                return _new(SchemaAndValue, (None, self._decode(data))) if data else NO_VALUE
            try:
                envelope = _decode_envelope(data)
            except msgspec.ValidationError as error:
                raise DataError(_NOT_AN_ENVELOPE.format(error)) from None
            known = self._learn(bytes(envelope.schema))
            return SchemaAndValue(known.schema, known.read(envelope.payload))
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise DataError(f"not JSON: {error}") from None

    def deserialize_many(self, topic: str, data: Sequence[bytes | None]) -> Sequence[tuple[Schema | None, Any]]:
        """Return what each JSON text says; without schemas that is little more than a loop around the decoder."""
        if self._schemas_enable:
            return super().deserialize_many(topic, data)
        decode = self._decode
        return [(None, decode(each)) if each else NO_VALUE for each in data]

    def serialize_many(
        self, topic: str, schemas: Sequence[Schema | None], values: Sequence[Any]
    ) -> Sequence[bytes | None]:
        """Return each value's JSON; without schemas that is little more than a loop around the encoder."""
        if self._schemas_enable or schemas.count(None) < len(schemas):
            return super().serialize_many(topic, schemas, values)
        encode = self._encode
        texts = [None if value is None else encode(value) for value in values]
        # As in `_encode_any`, which finishes those that may have no number in JSON.
        return [
            text if text is None or text.rfind(b"null") < 0 else self._encode_any(value)
            for text, value in zip(texts, values, strict=True)
        ]

    def _encode_any(self, value: Any) -> bytes:
        try:
            text = self._encode(value)
            # JSON has no NaN and no infinity; msgspec writes null for them, which must not pass for the value.
            if text.rfind(b"null") >= 0 and _has_text_number(value):  # rfind: the fastest search for short texts
                text = self._encode(_with_text_numbers(value))
        except (TypeError, ValueError, RecursionError) as error:
            raise DataError(f"a value that JSON cannot say: {error}") from None
        return text

    def _compile(self, schema: Schema) -> _Written:
        described = json_schema.to_json(schema, lambda part, value: compile_writer(part, self._rules)(value))
        return _Written(b'{"schema":' + self._encode(described) + b',"payload":', compile_writer(schema, self._rules))

    def _learned(self, text: bytes) -> _Known:
        described = self._decode(text)
        if described is None:
            return _Known(None, self._decode)
        schema = json_schema.from_json(described, self._read_default)
        return _Known(schema, compile_reader(schema, self._rules))

    def _read_default(self, schema: Schema, value: Any) -> Any:
        return compile_reader(schema, self._rules)(self._encode(value))


_NOT_AN_ENVELOPE = (
    "with schemas.enable a value must be a JSON object of 'schema' and 'payload' and nothing else ({}); "
    "plain JSON needs schemas.enable=false in the converter's settings"
)


def _has_text_number(value: Any) -> bool:
    """Return whether there is a number in a value that JSON has not."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return False
    return any(_has_text_number(each) for each in value if isinstance(each, _MAY_HOLD_FLOATS))


def _with_text_numbers(value: Any) -> Any:
    """Return a value in which text stands for the numbers that JSON has not, as Kafka's JSON library writes them."""
    if isinstance(value, float):
        return float_to_json(value)
    if isinstance(value, dict):
        return {key: _with_text_numbers(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_with_text_numbers(each) for each in value]
    return value


_MAY_HOLD_FLOATS = (float, dict, list, tuple)
