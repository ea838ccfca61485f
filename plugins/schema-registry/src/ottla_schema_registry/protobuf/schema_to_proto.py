"""Connect schemas as Protobuf files: a struct is a message, and structs within it are messages within that.

Protobuf numbers its fields: by the parameter `io.confluent.connect.protobuf.Tag`, or else one after the other. What
is no struct is one of the wrapper messages, such as `google.protobuf.StringValue`.
"""

from dataclasses import replace
from typing import NamedTuple

from google.protobuf import descriptor_pb2

from ottla_schema_registry.protobuf import field_meta
from ottla_schema_registry.protobuf.builtin_files import (
    DATE_FILE,
    DECIMAL_FILE,
    META_FILE,
    RUNTIME_FILES,
    TIME_FILE,
    TIMESTAMP_FILE,
    WRAPPERS_FILE,
)
from ottla_schema_registry.protobuf.conventions import (
    CONNECT_TYPE,
    DATE_TYPE,
    DECIMAL_TYPE,
    DEFAULT_NAME,
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
    is_enum,
    is_union,
    scrubbed,
)
from ottla_sdk import DataError, Field, Schema, Type
from ottla_sdk.schema import DATE_NAME, DECIMAL_NAME, SCALE_PARAMETER, TIME_NAME, TIMESTAMP_NAME

_Field = descriptor_pb2.FieldDescriptorProto
_Message = descriptor_pb2.DescriptorProto

_SCALARS = {
    Type.INT8: _Field.TYPE_INT32,
    Type.INT16: _Field.TYPE_INT32,
    Type.INT32: _Field.TYPE_INT32,
    Type.INT64: _Field.TYPE_INT64,
    Type.FLOAT32: _Field.TYPE_FLOAT,
    Type.FLOAT64: _Field.TYPE_DOUBLE,
    Type.BOOLEAN: _Field.TYPE_BOOL,
    Type.STRING: _Field.TYPE_STRING,
    Type.BYTES: _Field.TYPE_BYTES,
}
_WRAPPERS = {
    Type.INT8: "Int32Value",
    Type.INT16: "Int32Value",
    Type.INT32: "Int32Value",
    Type.INT64: "Int64Value",
    Type.FLOAT32: "FloatValue",
    Type.FLOAT64: "DoubleValue",
    Type.BOOLEAN: "BoolValue",
    Type.STRING: "StringValue",
    Type.BYTES: "BytesValue",
}
_UNSIGNED_WRAPPERS = {
    "uint32": "UInt32Value",
    "fixed32": "UInt32Value",
    "uint64": "UInt64Value",
    "fixed64": "UInt64Value",
}
_LOGICAL = {
    DECIMAL_NAME: (DECIMAL_TYPE, DECIMAL_FILE),
    DATE_NAME: (DATE_TYPE, DATE_FILE),
    TIME_NAME: (TIME_TYPE, TIME_FILE),
    TIMESTAMP_NAME: (TIMESTAMP_TYPE, TIMESTAMP_FILE),
}
_MAP_KEYS = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.BOOLEAN, Type.STRING)


class ProtoSchema(NamedTuple):
    """A Protobuf file, and the full name of the message type for the values."""

    file: descriptor_pb2.FileDescriptorProto
    message: str


def to_proto(schema: Schema, rules: ProtobufRules) -> ProtoSchema:
    """Return the Protobuf file of a Connect schema.

    Raises:
        DataError: Protobuf has nothing for it, such as for an array within an array.
    """
    if schema.type is Type.STRUCT and not is_union(schema):
        return _Translation(rules).translate(schema)
    if schema.type in _WRAPPERS and schema.name not in _LOGICAL:
        return ProtoSchema(RUNTIME_FILES[WRAPPERS_FILE], f"google.protobuf.{_WRAPPERS[schema.type]}")
    raise DataError(f"Protobuf has no message for values of the schema {schema.name or schema.type} by themselves")


class _Translation:
    def __init__(self, rules: ProtobufRules) -> None:
        self._rules = rules
        self._file = descriptor_pb2.FileDescriptorProto(name="default.proto", syntax="proto3")
        self._unnamed = 0
        self._defined: dict[tuple[int, str], Schema] = {}

    def translate(self, schema: Schema) -> ProtoSchema:
        """Return the file."""
        parts = [scrubbed(each, self._rules) for each in self._name(schema).split(".")]
        self._file.package = ".".join(parts[:-1])
        self._message(self._file.message_type.add(name=parts[-1]), schema)
        return ProtoSchema(self._file, ".".join(parts))

    def _name(self, schema: Schema) -> str:
        if schema.name:
            return schema.name
        self._unnamed += 1
        return f"{DEFAULT_NAME}{self._unnamed}"

    def _short_name(self, schema: Schema) -> str:
        return scrubbed(self._name(schema).rpartition(".")[2], self._rules)

    def _message(self, message: _Message, schema: Schema) -> None:
        numbers = _Numbers(schema)
        optionals = []
        for each in schema.fields:
            if is_union(each.schema):
                self._oneof(message, each.schema, numbers)
                continue
            field = self._field(message, each, numbers, is_oneof_member=False)
            if field.proto3_optional:
                optionals.append(field)
        for field in optionals:
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")

    def _oneof(self, message: _Message, schema: Schema, numbers: "_Numbers") -> None:
        assert schema.name is not None, "unions have one"
        name = schema.name.removeprefix(f"{UNION_NAME}.").rpartition(".")[2]
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=scrubbed(name, self._rules))
        for each in schema.fields:
            self._field(message, each, numbers, is_oneof_member=True).oneof_index = index

    def _field(self, message: _Message, field: Field, numbers: "_Numbers", *, is_oneof_member: bool) -> _Field:
        schema = field.schema
        made = message.field.add(
            name=scrubbed(field.name, self._rules), number=numbers.of(schema), label=_Field.LABEL_OPTIONAL
        )
        try:
            if schema.type is Type.ARRAY:
                element = _part(schema.value_schema)
                if element.type in (Type.ARRAY, Type.MAP) or is_union(element):
                    raise DataError(f"Protobuf has no arrays of {element.type}")
                made.label = _Field.LABEL_REPEATED
                self._set_type(message, made, element, is_oneof_member=is_oneof_member)
            elif schema.type is Type.MAP:
                made.label = _Field.LABEL_REPEATED
                self._map(message, made, schema)
            else:
                self._set_type(message, made, schema, is_oneof_member=is_oneof_member)
                made.proto3_optional = schema.optional and self._rules.optional_for_nullables and not is_oneof_member
        except DataError as error:
            raise DataError(f"{field.name}: {error}") from None
        return made

    def _set_type(self, message: _Message, field: _Field, schema: Schema, *, is_oneof_member: bool) -> None:
        if schema.name in _LOGICAL:
            field.type = _Field.TYPE_MESSAGE
            field.type_name, file = _LOGICAL[schema.name]
            self._import(file)
            if schema.name == DECIMAL_NAME:
                self._decimal(field, schema)
        elif schema.type is Type.STRUCT:
            field.type = _Field.TYPE_MESSAGE
            field.type_name = self._nested(message, field.name, schema)
        elif is_enum(schema):
            field.type = _Field.TYPE_ENUM
            field.type_name = self._enum(message, schema)
        elif self._is_wrapped(schema, is_oneof_member):
            field.type = _Field.TYPE_MESSAGE
            wrapper = _UNSIGNED_WRAPPERS.get(schema.parameters.get(TYPE_PARAMETER, ""), _WRAPPERS[schema.type])
            field.type_name = f"google.protobuf.{wrapper}"
            self._import(WRAPPERS_FILE)
        else:
            field.type = _scalar(schema)
        if schema.type in (Type.INT8, Type.INT16):
            self._add_params(field, {CONNECT_TYPE: str(schema.type).lower()})

    def _is_wrapped(self, schema: Schema, is_oneof_member: bool) -> bool:
        if not self._rules.wrapper_for_nullables or not schema.optional:
            return False
        return not is_oneof_member or schema.parameters.get(WRAPPER_PARAMETER) == "true"

    def _decimal(self, field: _Field, schema: Schema) -> None:
        params = {}
        for name, parameter in ((PRECISION, PRECISION_PARAMETER), (SCALE, SCALE_PARAMETER)):
            if parameter in schema.parameters:
                params[name] = schema.parameters[parameter]
        self._add_params(field, params)

    def _add_params(self, field: _Field, params: dict[str, str]) -> None:
        self._import(META_FILE)
        field_meta.write_params(field.options, params)

    def _import(self, file: str) -> None:
        if file not in self._file.dependency:
            self._file.dependency.append(file)

    def _nested(self, message: _Message, field_name: str, schema: Schema) -> str:
        name = self._short_name(schema)
        if name == field_name:
            name += "Message"  # A message and a field of the same name cannot be in one message.
        if self._is_new(message, name, schema):
            self._message(message.nested_type.add(name=name), schema)
        return name

    def _enum(self, message: _Message, schema: Schema) -> str:
        prefix = f"{ENUM_PARAMETER}."
        name = scrubbed(schema.parameters[ENUM_PARAMETER].rpartition(".")[2], self._rules)
        if self._is_new(message, name, schema):
            enum = message.enum_type.add(name=name)
            for key, number in schema.parameters.items():
                if key.startswith(prefix):
                    enum.value.add(name=key.removeprefix(prefix), number=_number(key, number))
            enum.options.allow_alias = len({each.number for each in enum.value}) < len(enum.value)
            enum.value.sort(key=lambda each: each.number != 0)  # The first one must be 0.
        return name

    def _is_new(self, message: _Message, name: str, schema: Schema) -> bool:
        """Return whether a type is still to be said within a message; raises DataError if it is another one."""
        bare = replace(schema, optional=False, doc=None, parameters=_without_tag(schema))
        known = self._defined.setdefault((id(message), name), bare)
        if known is not bare and known != bare:
            raise DataError(f"two types within {message.name} have the name {name}, and differ")
        return known is bare

    def _map(self, message: _Message, field: _Field, schema: Schema) -> None:
        keys, values = _part(schema.key_schema), _part(schema.value_schema)
        if values.type in (Type.ARRAY, Type.MAP) or is_union(values):
            raise DataError(f"Protobuf has no maps of {values.type}")
        field.type = _Field.TYPE_MESSAGE
        field.type_name = _map_entry_name(field.name)
        entry = message.nested_type.add(name=field.type_name)
        # Protobuf's maps have numbers, booleans and text for keys; with others it is an array of entries.
        is_plain = keys.type in _MAP_KEYS and keys.name not in _LOGICAL and not is_enum(keys)
        entry.options.map_entry = is_plain
        for number, (name, part) in enumerate((("key", keys), ("value", values)), 1):
            made = entry.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
            # Types within the entry would be out of reach: they are said in the message.
            self._set_type(message, made, replace(part, optional=False), is_oneof_member=False)
        if is_plain:
            for part_field in entry.field:
                part_field.ClearField("options")  # A .proto file has no place for them.


class _Numbers:
    """Numbers for fields: those that schemas ask for, and for the others the lowest that are free."""

    def __init__(self, schema: Schema) -> None:
        members = [
            inner.schema
            for each in schema.fields
            for inner in (each.schema.fields if is_union(each.schema) else (each,))
        ]
        asked = [each.parameters[TAG_PARAMETER] for each in members if TAG_PARAMETER in each.parameters]
        self._taken = {_number(TAG_PARAMETER, each) for each in asked}
        self._next = 1

    def of(self, schema: Schema) -> int:
        """Return the number of the next field."""
        if TAG_PARAMETER in schema.parameters:
            return _number(TAG_PARAMETER, schema.parameters[TAG_PARAMETER])
        while self._next in self._taken:
            self._next += 1
        self._taken.add(self._next)
        return self._next


def _scalar(schema: Schema) -> "_Field.Type.ValueType":
    asked = schema.parameters.get(TYPE_PARAMETER)
    if asked is None or schema.type not in (Type.INT32, Type.INT64):
        return _SCALARS[schema.type]
    try:
        return _Field.Type.Value(f"TYPE_{asked.upper()}")
    except ValueError:
        raise DataError(f"the schema parameter {TYPE_PARAMETER} is no Protobuf type: {asked!r}") from None


def _without_tag(schema: Schema) -> dict[str, str]:
    return {key: each for key, each in schema.parameters.items() if key != TAG_PARAMETER}


def _number(parameter: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise DataError(f"the schema parameter {parameter} is no number: {text!r}") from None


def _part(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("the schema of an array or a map does not say what is in it")
    return schema


def _map_entry_name(field: str) -> str:
    """Return the name of the message that holds an entry of a map, as protoc makes it of the field's name."""
    return "".join(each[:1].upper() + each[1:] for each in field.split("_")) + "Entry"
