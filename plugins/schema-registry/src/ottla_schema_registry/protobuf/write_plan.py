"""What puts Connect's values into Protobuf messages.

The message type is the one made of the Connect schema, or that of the latest schema of a subject: fields go by their
names. What is null is not set.
"""

from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import EncodeError

from ottla_schema_registry.protobuf.conventions import (
    DATE_TYPE,
    DECIMAL_TYPE,
    TIME_TYPE,
    TIMESTAMP_TYPE,
    ProtobufRules,
    is_union,
    scrubbed,
)
from ottla_schema_registry.protobuf.read_plan import WRAPPERS, enum_of, is_map, message_of
from ottla_sdk import DataError, Schema, Type
from ottla_sdk.logical_types import decimal_to_bytes, decimal_to_unscaled, scale_of, timestamp_to_ms
from ottla_sdk.schema import DATE_NAME, DECIMAL_NAME, INTEGER_BITS, TIME_NAME, TIMESTAMP_NAME, check_value

Fill = Callable[[Any, Any], None]
"""Puts a value, which is not None, into a message."""
Convert = Callable[[Any], Any]

_F = FieldDescriptor
_UNSIGNED_BITS = {_F.TYPE_UINT32: 32, _F.TYPE_FIXED32: 32, _F.TYPE_UINT64: 64, _F.TYPE_FIXED64: 64}
_INTEGERS = tuple(INTEGER_BITS)
_NUMBERS = (Type.FLOAT32, Type.FLOAT64, *_INTEGERS)
_ACCEPTED: Mapping[int, tuple[Type, ...]] = {
    _F.CPPTYPE_INT32: (Type.INT8, Type.INT16, Type.INT32),
    _F.CPPTYPE_INT64: _INTEGERS,
    _F.CPPTYPE_UINT32: _INTEGERS,
    _F.CPPTYPE_UINT64: _INTEGERS,
    _F.CPPTYPE_DOUBLE: _NUMBERS,
    _F.CPPTYPE_FLOAT: _NUMBERS,
    _F.CPPTYPE_BOOL: (Type.BOOLEAN,),
    _F.CPPTYPE_ENUM: (Type.STRING, Type.INT32),
}
_LOGICAL = {DECIMAL_NAME: DECIMAL_TYPE, DATE_NAME: DATE_TYPE, TIME_NAME: TIME_TYPE, TIMESTAMP_NAME: TIMESTAMP_TYPE}


def message_writer(descriptor: Descriptor, schema: Schema, rules: ProtobufRules) -> Callable[[Any], bytes]:
    """Return what makes the bytes of a message of values of a Connect schema; both may raise DataError."""
    make = message_factory.GetMessageClass(descriptor)
    fill = _message_filler(descriptor, schema, rules)

    def write(value: Any) -> bytes:
        check_value(schema, value)
        message = make()
        try:
            fill(message, value)
            # Maps in the order of their keys: equal values have equal bytes.
            return message.SerializeToString(deterministic=True)
        except (TypeError, ValueError, EncodeError) as error:
            raise DataError(f"the value does not fit its Protobuf message: {error}") from None

    return write


def _message_filler(descriptor: Descriptor, schema: Schema, rules: ProtobufRules) -> Fill:
    if schema.name is not None and schema.name in _LOGICAL:
        if descriptor.full_name != _LOGICAL[schema.name]:
            raise _unfitting(schema, descriptor.full_name)
        return _logical_filler(schema)
    if schema.type is Type.STRUCT:
        return _struct_filler(descriptor, schema, rules)
    if descriptor.full_name in WRAPPERS:
        return _field_filler(descriptor.fields_by_name["value"], schema, rules)
    raise _unfitting(schema, descriptor.full_name)


def _struct_filler(descriptor: Descriptor, schema: Schema, rules: ProtobufRules) -> Fill:
    fills = []
    for each in schema.fields:
        default = each.schema.default if each.schema.has_default else None
        if each.schema.optional and rules.ignore_default_for_nullables:
            default = None
        if is_union(each.schema):
            fill = _oneof_filler(descriptor, each.schema, rules)
        else:
            fill = _named_filler(descriptor, each.name, each.schema, rules)
        fills.append((each.name, fill, default))

    def fill_all(message: Any, value: dict[str, Any]) -> None:
        for name, fill, default in fills:
            found = value.get(name)
            if found is None:
                found = default
            if found is not None:
                fill(message, found)

    return fill_all


def _named_filler(descriptor: Descriptor, name: str, schema: Schema, rules: ProtobufRules) -> Fill:
    field = descriptor.fields_by_name.get(scrubbed(name, rules))
    if field is None:
        raise DataError(f"the Protobuf message {descriptor.full_name} has no field {name}")
    return _field_filler(field, schema, rules)


def _oneof_filler(descriptor: Descriptor, schema: Schema, rules: ProtobufRules) -> Fill:
    fills = {each.name: _named_filler(descriptor, each.name, each.schema, rules) for each in schema.fields}

    def fill(message: Any, value: dict[str, Any]) -> None:
        for name, found in value.items():
            if found is not None:
                fills[name](message, found)
                return

    return fill


def _field_filler(field: FieldDescriptor, schema: Schema, rules: ProtobufRules) -> Fill:
    if schema.type is Type.MAP:
        return _map_filler(field, schema, rules)
    if field.is_repeated:
        if schema.type is not Type.ARRAY:
            raise _unfitting(schema, f"repeated field {field.name}")
        return _array_filler(field, _part(schema.value_schema), rules)
    name = field.name
    if field.type == _F.TYPE_MESSAGE:
        fill_inner = _message_filler(message_of(field), schema, rules)

        def fill(message: Any, value: Any) -> None:
            inner = getattr(message, name)
            inner.SetInParent()  # It is there, also if it is empty.
            fill_inner(inner, value)

        return fill
    convert = _converter(field, schema)
    return lambda message, value: setattr(message, name, convert(value))


def _array_filler(field: FieldDescriptor, schema: Schema, rules: ProtobufRules) -> Fill:
    name = field.name
    if field.type == _F.TYPE_MESSAGE:
        fill_inner = _message_filler(message_of(field), schema, rules)

        def fill(message: Any, value: list[Any]) -> None:
            elements = getattr(message, name)
            for each in value:
                fill_inner(elements.add(), _present(each, name))

        return fill
    convert = _converter(field, schema)
    return lambda message, value: getattr(message, name).extend([convert(_present(each, name)) for each in value])


def _map_filler(field: FieldDescriptor, schema: Schema, rules: ProtobufRules) -> Fill:
    if not is_map(field):
        raise _unfitting(schema, f"field {field.name}")
    name = field.name
    key_field, value_field = message_of(field).fields
    keys, values = _part(schema.key_schema), _part(schema.value_schema)
    if not message_of(field).GetOptions().map_entry:
        fill_key = _field_filler(key_field, keys, rules)
        fill_value = _field_filler(value_field, values, rules)

        def fill_entries(message: Any, value: dict[Any, Any]) -> None:
            entries = getattr(message, name)
            for key, found in value.items():
                entry = entries.add()
                fill_key(entry, _present(key, name))
                if found is not None:
                    fill_value(entry, found)

        return fill_entries
    convert_key = _converter(key_field, keys)
    if value_field.type == _F.TYPE_MESSAGE:
        fill_inner = _message_filler(message_of(value_field), values, rules)

        def fill_messages(message: Any, value: dict[Any, Any]) -> None:
            pairs = getattr(message, name)
            for key, found in value.items():
                fill_inner(pairs[convert_key(_present(key, name))], _present(found, name))

        return fill_messages
    convert = _converter(value_field, values)
    return lambda message, value: getattr(message, name).update(
        {convert_key(_present(key, name)): convert(_present(found, name)) for key, found in value.items()}
    )


def _converter(field: FieldDescriptor, schema: Schema) -> Convert:
    if field.type == _F.TYPE_BYTES or schema.type is Type.BYTES:
        if field.type != _F.TYPE_BYTES or schema.type is not Type.BYTES or schema.name in _LOGICAL:
            raise _unfitting(schema, f"field {field.name}")
        return bytes
    accepted = (Type.STRING,) if field.type == _F.TYPE_STRING else _ACCEPTED.get(field.cpp_type, ())
    if schema.type not in accepted or schema.name in _LOGICAL:
        raise _unfitting(schema, f"field {field.name}")
    if field.type == _F.TYPE_ENUM:
        return _enum_converter(field)
    if bits := _UNSIGNED_BITS.get(field.type):
        # Connect has no unsigned numbers: as in Java, the upper half is negative.
        return lambda value: value + (1 << bits) if value < 0 else value
    return float if schema.type in _NUMBERS and field.cpp_type in (_F.CPPTYPE_DOUBLE, _F.CPPTYPE_FLOAT) else _same


def _enum_converter(field: FieldDescriptor) -> Convert:
    numbers = {each.name: each.number for each in enum_of(field).values}

    def convert(value: str | int) -> int:
        if isinstance(value, int):
            return value
        if value in numbers:
            return numbers[value]
        if value.lstrip("-").isdigit():
            return int(value)  # So a number is read that the schema does not name.
        raise DataError(f"{value!r:.80} is none of the enum {enum_of(field).name}: {', '.join(numbers)}")

    return convert


def _logical_filler(schema: Schema) -> Fill:
    if schema.name == DECIMAL_NAME:
        scale = scale_of(schema)

        def fill_decimal(message: Any, value: Any) -> None:
            message.value = decimal_to_bytes(value, scale)
            message.precision = len(str(abs(decimal_to_unscaled(value, scale))))
            message.scale = scale

        return fill_decimal
    return {DATE_NAME: _fill_date, TIME_NAME: _fill_time, TIMESTAMP_NAME: _fill_timestamp}[schema.name or ""]


def _fill_date(message: Any, value: Any) -> None:
    message.year, message.month, message.day = value.year, value.month, value.day


def _fill_time(message: Any, value: Any) -> None:
    message.hours, message.minutes, message.seconds = value.hour, value.minute, value.second
    message.nanos = value.microsecond // 1000 * 1_000_000


def _fill_timestamp(message: Any, value: Any) -> None:
    seconds, ms = divmod(timestamp_to_ms(value), 1000)
    message.seconds, message.nanos = seconds, ms * 1_000_000


def _present(value: Any, field: str) -> Any:
    if value is None:
        raise DataError(f"{field}: Protobuf has no null within arrays and maps")
    return value


def _part(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("the schema of an array or a map does not say what is in it")
    return schema


def _unfitting(schema: Schema, what: str) -> DataError:
    return DataError(f"the Connect schema {schema.name or schema.type} does not fit Protobuf's {what}")


def _same(value: Any) -> Any:
    return value
