"""Protobuf messages as Connect schemas, each with what turns messages into Connect's values.

A field that Protobuf cannot tell from one that was never set has its type's zero; one that it can is None. A oneof is
a struct of which one field is set.
"""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, OneofDescriptor

from ottla_schema_registry.protobuf import field_meta
from ottla_schema_registry.protobuf.conventions import (
    CONNECT_TYPE,
    DATE_TYPE,
    DECIMAL_TYPE,
    ENUM_PARAMETER,
    PRECISION,
    PRECISION_PARAMETER,
    SCALE,
    TAG_PARAMETER,
    TIME_TYPE,
    TIMESTAMP_TYPE,
    TYPE_PARAMETER,
    UNION_NAME,
    WRAPPER_PARAMETER,
    ProtobufRules,
)
from ottla_sdk import DataError, Field, Schema, Type
from ottla_sdk.logical_types import bytes_to_decimal, ms_to_timestamp
from ottla_sdk.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    decimal_schema,
)

Read = Callable[[Any], Any]

_F = FieldDescriptor
_SIGNED_64 = 1 << 63
_TYPE_NAMES = {
    _F.TYPE_UINT32: "uint32",
    _F.TYPE_SINT32: "sint32",
    _F.TYPE_FIXED32: "fixed32",
    _F.TYPE_SFIXED32: "sfixed32",
    _F.TYPE_UINT64: "uint64",
    _F.TYPE_SINT64: "sint64",
    _F.TYPE_FIXED64: "fixed64",
    _F.TYPE_SFIXED64: "sfixed64",
}
_SCALARS = {
    _F.TYPE_INT32: INT32,
    _F.TYPE_SINT32: INT32,
    _F.TYPE_SFIXED32: INT32,
    _F.TYPE_UINT32: INT64,
    _F.TYPE_FIXED32: INT64,
    _F.TYPE_INT64: INT64,
    _F.TYPE_SINT64: INT64,
    _F.TYPE_SFIXED64: INT64,
    _F.TYPE_UINT64: INT64,
    _F.TYPE_FIXED64: INT64,
    _F.TYPE_FLOAT: FLOAT32,
    _F.TYPE_DOUBLE: FLOAT64,
    _F.TYPE_BOOL: BOOLEAN,
    _F.TYPE_STRING: STRING,
    _F.TYPE_BYTES: BYTES,
}
WRAPPERS = {
    "google.protobuf.DoubleValue": FLOAT64,
    "google.protobuf.FloatValue": FLOAT32,
    "google.protobuf.Int64Value": INT64,
    "google.protobuf.UInt64Value": INT64,
    "google.protobuf.Int32Value": INT32,
    "google.protobuf.UInt32Value": INT64,
    "google.protobuf.BoolValue": BOOLEAN,
    "google.protobuf.StringValue": STRING,
    "google.protobuf.BytesValue": BYTES,
}


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What a message type, or a field, means.

    Attributes:
        schema: the Connect schema.
        read: makes Connect's value of the message, or of the field's value.
    """

    schema: Schema
    read: Read


def read_plan(descriptor: Descriptor, rules: ProtobufRules) -> ReadPlan:
    """Return what a message type means; raises DataError if it contains itself."""
    if descriptor.full_name in WRAPPERS:
        return _unwrapping(descriptor)
    return _Translation(rules).message(descriptor)


def real_oneofs(descriptor: Descriptor) -> list[OneofDescriptor]:
    """Return the oneofs of a message type that are not just how Protobuf says `optional`."""
    return [each for each in descriptor.oneofs if not _is_synthetic(each)]


def message_of(field: FieldDescriptor) -> Descriptor:
    """Return the message type of a field that has one."""
    assert field.message_type is not None, f"{field.full_name} is no message"
    return field.message_type


def enum_of(field: FieldDescriptor) -> EnumDescriptor:
    """Return the enum of a field that has one."""
    assert field.enum_type is not None, f"{field.full_name} is no enum"
    return field.enum_type


def is_map(field: FieldDescriptor) -> bool:
    """Return whether a field is a map, or an array of entries as ProtobufData makes it of maps."""
    if not field.is_repeated or field.type != _F.TYPE_MESSAGE or not message_of(field).name.endswith("Entry"):
        return False
    fields = message_of(field).fields
    return [each.name for each in fields] == ["key", "value"] and not any(each.is_repeated for each in fields)


class _Translation:
    def __init__(self, rules: ProtobufRules) -> None:
        self._rules = rules
        self._under_way: list[str] = []

    def message(self, descriptor: Descriptor) -> ReadPlan:
        """Return what a message type means."""
        if descriptor.full_name in self._under_way:
            raise DataError(f"the message {descriptor.full_name} contains itself, which a Connect schema cannot")
        self._under_way.append(descriptor.full_name)
        fields: list[Field] = []
        reads: list[tuple[str, Read]] = []
        in_oneofs: set[str] = set()
        for oneof in real_oneofs(descriptor):
            in_oneofs.update(each.name for each in oneof.fields)
            for name, plan in self._oneof(oneof):
                fields.append(Field(name, plan.schema))
                reads.append((name, plan.read))
        for each in descriptor.fields:
            if each.name not in in_oneofs:
                plan = self._field(each)
                fields.append(Field(each.name, plan.schema))
                reads.append((each.name, _from_message(each, plan.read)))
        self._under_way.pop()
        name = descriptor.full_name if self._rules.enhanced else descriptor.name
        schema = Schema(type=Type.STRUCT, name=name, fields=tuple(fields))
        return ReadPlan(schema, lambda message: {name: read(message) for name, read in reads})

    def _oneof(self, oneof: OneofDescriptor) -> list[tuple[str, ReadPlan]]:
        """Return the fields that stand for a oneof; each reads from the whole message."""
        plans = {each.name: self._field(each, is_oneof_member=True) for each in oneof.fields}
        if self._rules.flatten_unions:
            return [
                (each.name, replace(plans[each.name], read=_if_set(each.name, plans[each.name].read)))
                for each in oneof.fields
            ]
        full_name = f"{oneof.containing_type.full_name}.{oneof.name}"
        schema = Schema(
            type=Type.STRUCT,
            name=f"{UNION_NAME}.{full_name if self._rules.enhanced else oneof.name}",
            optional=True,
            fields=tuple(Field(name, plan.schema) for name, plan in plans.items()),
        )
        reads = {name: plan.read for name, plan in plans.items()}
        name = f"{oneof.name}_{oneof.index}" if self._rules.index_for_unions else oneof.name
        return [(name, ReadPlan(schema, _which(oneof.name, reads)))]

    def _field(self, field: FieldDescriptor, *, is_oneof_member: bool = False) -> ReadPlan:
        if is_map(field):
            plan = self._map(field)
        else:
            plan = self._single(field, is_oneof_member)
            if field.is_repeated:
                read = plan.read
                plan = ReadPlan(
                    Schema(type=Type.ARRAY, value_schema=plan.schema.as_optional()),
                    lambda values: [read(each) for each in values],
                )
        schema = plan.schema
        is_nullable = (
            is_oneof_member
            or field.type in (_F.TYPE_MESSAGE, _F.TYPE_ENUM)
            or field.is_repeated
            or (_is_optional(field) if self._rules.optional_for_nullables else not self._rules.wrapper_for_nullables)
        )
        parameters = {**schema.parameters, TAG_PARAMETER: str(field.number)}
        return replace(plan, schema=replace(schema, optional=is_nullable or schema.optional, parameters=parameters))

    def _single(self, field: FieldDescriptor, is_oneof_member: bool) -> ReadPlan:
        if field.type == _F.TYPE_GROUP:
            raise DataError(f"the field {field.full_name} is a group, which Connect does not know")
        if field.type == _F.TYPE_ENUM:
            return self._enum(field)
        if field.type != _F.TYPE_MESSAGE:
            return _scalar(field)
        full_name = message_of(field).full_name
        if full_name in _LOGICAL:
            schema = _decimal(field) if full_name == DECIMAL_TYPE else _LOGICAL[full_name][0]
            return ReadPlan(schema, _LOGICAL[full_name][1])
        if self._rules.wrapper_for_nullables and full_name in WRAPPERS:
            plan = _unwrapping(message_of(field))
            if not is_oneof_member:
                return plan
            return replace(plan, schema=replace(plan.schema, parameters={WRAPPER_PARAMETER: "true"}))
        return self.message(message_of(field))

    def _enum(self, field: FieldDescriptor) -> ReadPlan:
        enum = enum_of(field)
        parameters = {ENUM_PARAMETER: enum.name}
        parameters.update({f"{ENUM_PARAMETER}.{each.name}": str(each.number) for each in enum.values})
        name = enum.full_name if self._rules.enhanced else enum.name
        if self._rules.int_for_enums:
            return ReadPlan(replace(INT32, name=name, parameters=parameters), int)
        names = {each.number: each.name for each in reversed(enum.values)}
        # A number that the schema does not name is one of a newer schema.
        return ReadPlan(
            replace(STRING, name=name, parameters=parameters), lambda number: names.get(number, str(number))
        )

    def _map(self, field: FieldDescriptor) -> ReadPlan:
        key_field, value_field = message_of(field).fields
        keys, values = self._field(key_field), self._field(value_field)
        entry = message_of(field)
        name = (entry.full_name if self._rules.enhanced else entry.name).removesuffix("Entry")
        head, _, short = name.rpartition(".")
        short = "".join(f"_{each.lower()}" if each.isupper() else each for each in short).lstrip("_")
        schema = Schema(
            type=Type.MAP,
            key_schema=keys.schema,
            value_schema=values.schema,
            name=f"{head}.{short}" if head else short,
        )
        read_key, read_value = keys.read, values.read
        if entry.GetOptions().map_entry:
            return ReadPlan(schema, lambda pairs: {read_key(key): read_value(pairs[key]) for key in pairs})
        key_of, value_of = _from_message(key_field, read_key), _from_message(value_field, read_value)
        return ReadPlan(schema, lambda entries: {key_of(each): value_of(each) for each in entries})


def _is_synthetic(oneof: OneofDescriptor) -> bool:
    # Only a proto3 optional field has a oneof named so, of which it is the only member.
    return len(oneof.fields) == 1 and oneof.name == f"_{oneof.fields[0].name}"


def _is_optional(field: FieldDescriptor) -> bool:
    """Return whether a field that is no message says whether it was set."""
    return field.has_presence and field.type != _F.TYPE_MESSAGE and not field.is_required


def _from_message(field: FieldDescriptor, read: Read) -> Read:
    name = field.name
    if field.is_repeated:
        return lambda message: read(getattr(message, name))
    if field.has_presence:
        return _if_set(name, read)
    return lambda message: read(getattr(message, name))


def _if_set(name: str, read: Read) -> Read:
    return lambda message: read(getattr(message, name)) if message.HasField(name) else None


def _which(oneof: str, reads: dict[str, Read]) -> Read:
    def read(message: Any) -> dict[str, Any] | None:
        name = message.WhichOneof(oneof)
        if name is None:
            return None
        return dict.fromkeys(reads) | {name: reads[name](getattr(message, name))}

    return read


def _scalar(field: FieldDescriptor) -> ReadPlan:
    schema = _SCALARS[field.type]
    if field.type == _F.TYPE_INT32:
        connect_type = field_meta.read_params(field.GetOptions()).get(CONNECT_TYPE)
        schema = {"int8": INT8, "int16": INT16}.get(connect_type or "", INT32)
    if field.type in _TYPE_NAMES:
        schema = replace(schema, parameters={TYPE_PARAMETER: _TYPE_NAMES[field.type]})
    # Connect has no unsigned numbers: as in Java, the upper half is negative.
    read = _signed if field.type in (_F.TYPE_UINT64, _F.TYPE_FIXED64) else _same
    return ReadPlan(schema, read)


def _unwrapping(descriptor: Descriptor) -> ReadPlan:
    read = _signed if descriptor.name == "UInt64Value" else _same
    return ReadPlan(WRAPPERS[descriptor.full_name], lambda message: read(message.value))


def _decimal(field: FieldDescriptor) -> Schema:
    params = field_meta.read_params(field.GetOptions())
    scale, precision = params.get(SCALE, "0"), params.get(PRECISION)
    if not scale.lstrip("-").isdigit():
        raise DataError(f"the scale of the field {field.full_name} is no number: {scale!r}")
    schema = decimal_schema(int(scale))
    if precision is None:
        return schema
    return replace(schema, parameters={**schema.parameters, PRECISION_PARAMETER: precision})


def _read_date(message: Any) -> dt.date:
    try:
        return dt.date(message.year, message.month, message.day)
    except ValueError as error:
        raise DataError(f"{message.year}-{message.month}-{message.day} is no date: {error}") from None


def _read_time(message: Any) -> dt.time:
    try:
        return dt.time(message.hours, message.minutes, message.seconds, message.nanos // 1_000_000 * 1000)
    except ValueError as error:
        raise DataError(f"{message.hours}:{message.minutes}:{message.seconds} is no time of day: {error}") from None


_LOGICAL: dict[str, tuple[Schema, Read]] = {
    DECIMAL_TYPE: (decimal_schema(0), lambda message: bytes_to_decimal(message.value, message.scale)),
    DATE_TYPE: (DATE, _read_date),
    TIME_TYPE: (TIME, _read_time),
    TIMESTAMP_TYPE: (
        TIMESTAMP,
        lambda message: ms_to_timestamp(message.seconds * 1000 + message.nanos // 1_000_000),
    ),
}


def _signed(value: int) -> int:
    return value - (_SIGNED_64 << 1) if value >= _SIGNED_64 else value


def _same(value: Any) -> Any:
    return value
