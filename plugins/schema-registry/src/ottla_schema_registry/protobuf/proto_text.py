"""Descriptors as text of .proto files, which is what registries take."""

from collections.abc import Iterator

from google.protobuf import descriptor_pb2

from ottla_schema_registry.protobuf import field_meta

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in _Field.Type.items()
    if name not in ("TYPE_MESSAGE", "TYPE_ENUM", "TYPE_GROUP")
}


def to_text(file: descriptor_pb2.FileDescriptorProto) -> str:
    """Return the text of a file of proto3 messages and enums."""
    return "\n".join(_file(file)) + "\n"


def _file(file: descriptor_pb2.FileDescriptorProto) -> Iterator[str]:
    yield 'syntax = "proto3";'
    if file.package:
        yield f"package {file.package};"
    for each in file.dependency:
        yield f'import "{each}";'
    for message in file.message_type:
        yield ""
        yield from _message(message, "")
    for enum in file.enum_type:
        yield ""
        yield from _enum(enum, "")


def _message(message: descriptor_pb2.DescriptorProto, indent: str) -> Iterator[str]:
    inner = indent + "  "
    entries = {each.name: each for each in message.nested_type if each.options.map_entry}
    yield f"{indent}message {message.name} {{"
    for index, oneof in enumerate(message.oneof_decl):
        members = [each for each in message.field if each.HasField("oneof_index") and each.oneof_index == index]
        if any(each.proto3_optional for each in members):
            continue
        yield f"{inner}oneof {oneof.name} {{"
        for field in members:
            yield f"{inner}  {_field(field, entries)}"
        yield f"{inner}}}"
    for field in message.field:
        if not field.HasField("oneof_index") or field.proto3_optional:
            yield f"{inner}{_field(field, entries)}"
    for nested in message.nested_type:
        if nested.name not in entries:
            yield from _message(nested, inner)
    for enum in message.enum_type:
        yield from _enum(enum, inner)
    yield f"{indent}}}"


def _field(field: descriptor_pb2.FieldDescriptorProto, entries: dict[str, descriptor_pb2.DescriptorProto]) -> str:
    entry = entries.get(field.type_name.rpartition(".")[2])
    if entry is not None:
        key, value = entry.field
        kind = f"map<{_type(key)}, {_type(value)}>"
    else:
        label = "optional " if field.proto3_optional else ""
        label = "repeated " if field.label == _Field.LABEL_REPEATED else label
        kind = label + _type(field)
    params = field_meta.read_params(field.options)
    options = f" [({field_meta.EXTENSION_NAME}) = {{ {field_meta.params_to_text(params)} }}]" if params else ""
    return f"{kind} {field.name} = {field.number}{options};"


def _type(field: descriptor_pb2.FieldDescriptorProto) -> str:
    return field.type_name or _SCALARS[field.type]


def _enum(enum: descriptor_pb2.EnumDescriptorProto, indent: str) -> Iterator[str]:
    yield f"{indent}enum {enum.name} {{"
    if enum.options.allow_alias:
        yield f"{indent}  option allow_alias = true;"
    for value in enum.value:
        yield f"{indent}  {value.name} = {value.number};"
    yield f"{indent}}}"
