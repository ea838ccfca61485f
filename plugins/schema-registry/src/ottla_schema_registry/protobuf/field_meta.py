"""What Confluent keeps about a field in its options: `[(confluent.field_meta) = { params: [...] }]`.

The option is an extension that need not be known to the descriptors at hand; so its bytes are taken out of the
serialized options, and put into them as an unknown field.
"""

from collections.abc import Mapping

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.message import DecodeError, Message

EXTENSION_NUMBER = 1088
EXTENSION_NAME = "confluent.field_meta"

_TAG = b"\x82\x44"
"""The number and the wire type of bytes, as a varint."""
_Field = descriptor_pb2.FieldDescriptorProto


def _meta_class() -> type[Message]:
    """Return the message of the option, as far as it is used: `map<string, string> params = 2`."""
    file = descriptor_pb2.FileDescriptorProto(name="meta.proto", package="confluent", syntax="proto3")
    meta = file.message_type.add(name="Meta")
    entry = meta.nested_type.add(name="ParamsEntry")
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), 1):
        entry.field.add(name=name, number=number, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
    meta.field.add(
        name="params",
        number=2,
        type=_Field.TYPE_MESSAGE,
        type_name=".confluent.Meta.ParamsEntry",
        label=_Field.LABEL_REPEATED,
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("confluent.Meta"))


_Meta = _meta_class()


def read_params(options: descriptor_pb2.FieldOptions) -> Mapping[str, str]:
    """Return the parameters in a field's options; none if there are none, or none that can be read."""
    data = _extension(options.SerializeToString())
    if data is None:
        return {}
    meta = _Meta()
    try:
        meta.ParseFromString(data)
    except DecodeError:
        return {}
    return dict(meta.params)  # type: ignore[attr-defined]


def write_params(options: descriptor_pb2.FieldOptions, params: Mapping[str, str]) -> None:
    """Put parameters into a field's options."""
    meta = _Meta()
    meta.params.update(params)  # type: ignore[attr-defined]
    data = meta.SerializeToString()
    options.MergeFromString(_TAG + _varint(len(data)) + data)


def params_to_text(params: Mapping[str, str]) -> str:
    """Return the option's value for a .proto file, without its braces."""
    meta = _Meta()
    meta.params.update(params)  # type: ignore[attr-defined]
    return text_format.MessageToString(meta, as_one_line=True)


def _extension(data: bytes) -> bytes | None:
    """Return the bytes of the extension within serialized options."""
    at = 0
    found = None
    while at < len(data):
        tag, at = _read_varint(data, at)
        kind = tag & 7
        if kind == 2:
            size, at = _read_varint(data, at)
            if tag >> 3 == EXTENSION_NUMBER:
                found = data[at : at + size]
            at += size
        elif kind == 0:
            _, at = _read_varint(data, at)
        else:
            at += 8 if kind == 1 else 4
    return found


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
