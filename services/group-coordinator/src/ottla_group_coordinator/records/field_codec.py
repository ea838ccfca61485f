"""A small declarative codec for Kafka's versioned messages, as far as the records of groups need it.

A `Schema` lists the fields of a dataclass in their order, each with its type and the versions that have it. From that
a codec per version is put together: a chain of readers ``(data, position) -> (value, position)`` and of writers that
append to a bytearray. Flexible versions (KIP-482) write lengths as unsigned varints plus one and end with tagged
fields. Arrays are read as tuples, so whatever is decoded is immutable.

No length is believed before it is compared with the bytes that are there; whatever bytes come in, only
`InvalidRecord` goes out.
"""

import itertools
import operator
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from ottla_core.errors import InvalidRecord
from ottla_core.wire.primitives import bytes_length, string, unsigned_varint

NO_UUID = UUID(int=0)
"""What Kafka writes where there is no id."""

STRING_BYTES_MAX = 2**15 - 1
"""The longest text in a version that is not flexible, such as that of all keys: its length takes two bytes."""

_VARINT_SHIFT_MAX = 28
_UUID_BYTES = 16
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")

Reader = Callable[[bytes, int], tuple[Any, int]]
Writer = Callable[[bytearray, Any], None]


class ValueCodec(NamedTuple):
    """How one type is read and written in one version.

    Attributes:
        number: the character by which `struct` knows the type, if it is a number.
    """

    read: Reader
    write: Writer
    number: str = ""


FieldType = Callable[[int, bool], ValueCodec]
"""Gives a type's codec in a version that is flexible or not."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a schema.

    Attributes:
        since: first version that has it.
        until: last version that has it, or None if the newest has it.
        default: its value where a version lacks it or, with a tag, where it is not written.
        tag: its number among the tagged fields, or None if it is an ordinary field.
    """

    name: str
    type: FieldType
    since: int = 0
    until: int | None = None
    default: object = None
    tag: int | None = None

    def is_in(self, version: int) -> bool:
        """Return whether the version has the field."""
        return self.since <= version and (self.until is None or version <= self.until)


Message = TypeVar("Message")


class Schema(Generic[Message]):
    """The versions of one message.

    Args:
        message_type: a dataclass with the fields of all versions, to be filled by keyword.
        flexible_since: first version with tagged fields, or None if there is none.
    """

    def __init__(
        self,
        message_type: type[Message],
        fields: Sequence[Field],
        *,
        version_max: int = 0,
        flexible_since: int | None = None,
    ) -> None:
        self.message_type = message_type
        self.version_max = version_max
        self._codecs = tuple(
            struct_codec(message_type, fields, version, flexible_since is not None and version >= flexible_since)
            for version in range(version_max + 1)
        )

    def decode(self, version: int, data: bytes, position: int) -> Message:
        """Read a message that ends where the data end.

        Raises:
            InvalidRecord: the version is unknown or the data are no such message; the text names the field.
        """
        name = self.message_type.__name__
        if not 0 <= version <= self.version_max:
            raise InvalidRecord(f"{name}: version {version} is unknown, the newest is {self.version_max}")
        message, end = self._codecs[version].read(data, position)
        if end != len(data):
            raise InvalidRecord(f"{name} v{version}: {len(data) - end} bytes follow the last field")
        assert isinstance(message, self.message_type)
        return message

    def encode(self, version: int, message: Message, output: bytearray) -> None:
        """Append a message; fields that the version lacks are left out."""
        self._codecs[version].write(output, message)


def struct_codec(message_type: type, fields: Sequence[Field], version: int, flexible: bool) -> ValueCodec:
    """Return the codec of a dataclass in one version."""
    name = f"{message_type.__name__} v{version}"
    present = [field for field in fields if field.is_in(version)]
    plain = [(field.name, field.type(version, flexible)) for field in present if field.tag is None]
    by_tag = {field.tag: (field, field.type(version, flexible)) for field in present if field.tag is not None}
    tagged = dict(sorted(by_tag.items(), key=operator.itemgetter(0)))
    defaults = {field.name: field.default for field in fields if field not in present or field.tag is not None}

    def read(data: bytes, position: int) -> tuple[Any, int]:
        values = dict(defaults)
        at = ""
        try:
            for at, codec in plain:
                values[at], position = codec.read(data, position)
            if flexible:
                at = "tagged fields"
                position = read_tagged_fields(data, position, tagged, values)
        except (IndexError, struct.error):
            raise InvalidRecord(f"{name}: the data end within {at}") from None
        except UnicodeDecodeError as error:
            raise InvalidRecord(f"{name}: {at} is not UTF-8: {error.reason}") from None
        except InvalidRecord as error:
            raise InvalidRecord(f"{name}: {at}: {error.message}") from None
        return message_type(**values), position

    writers = tuple(_writers(plain))

    def write(output: bytearray, message: Any) -> None:
        for write_fields in writers:
            write_fields(output, message)
        if flexible:
            write_tagged_fields(output, message, tagged)

    return ValueCodec(read, write)


def _writers(fields: Sequence[tuple[str, ValueCodec]]) -> Iterator[Writer]:
    """Yield what writes the fields of a message one after the other; numbers in a row are packed at once."""
    for are_numbers, row in itertools.groupby(fields, lambda field: bool(field[1].number)):
        if are_numbers:
            yield _numbers_writer(tuple(row))
        else:
            yield from (_field_writer(name, codec) for name, codec in row)


def _numbers_writer(fields: Sequence[tuple[str, ValueCodec]]) -> Writer:
    pack = struct.Struct(">" + "".join(codec.number for _, codec in fields)).pack
    names = [name for name, _ in fields]

    def write(output: bytearray, message: object) -> None:
        output += pack(*[getattr(message, name) for name in names])

    return write


def _field_writer(name: str, codec: ValueCodec) -> Writer:
    write_value = codec.write
    return lambda output, message: write_value(output, getattr(message, name))


TaggedFields = dict[int, tuple[Field, ValueCodec]]


def read_tagged_fields(data: bytes, position: int, known: TaggedFields, values: dict[str, Any]) -> int:
    """Put the known tagged fields into `values`, skip the others, and return the position behind all."""
    count, position = read_unsigned_varint(data, position)
    for _ in range(count):
        tag, position = read_unsigned_varint(data, position)
        size, position = read_unsigned_varint(data, position)
        end = position + checked_length(size, data, position)
        if tag in known:
            field, codec = known[tag]
            values[field.name], value_end = codec.read(data, position)
            if value_end != end:
                raise InvalidRecord(f"{field.name} declares {size} bytes and has {value_end - position}")
        position = end
    return position


def write_tagged_fields(output: bytearray, message: object, known: TaggedFields) -> None:
    """Append the tagged fields, given in the order of their tags, that have other values than their defaults."""
    written = []
    for tag, (field, codec) in known.items():
        value = getattr(message, field.name)
        if value != field.default:
            encoded = bytearray()
            codec.write(encoded, value)
            written.append((tag, encoded))
    output += unsigned_varint(len(written))
    for tag, encoded in written:
        output += unsigned_varint(tag) + unsigned_varint(len(encoded)) + encoded


def read_unsigned_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return an unsigned varint of at most 32 bits and the position behind it.

    Raises:
        InvalidRecord: it has more than five bytes.
        IndexError: the data end within it.
    """
    byte = data[position]
    value, shift = byte & 0x7F, 0
    while byte >= 0x80:
        shift += 7
        if shift > _VARINT_SHIFT_MAX:
            raise InvalidRecord("a varint has more than five bytes")
        position += 1
        byte = data[position]
        value |= (byte & 0x7F) << shift
    return value, position + 1


def checked_length(length: int, data: bytes, position: int) -> int:
    """Return the length if so many bytes are left.

    Raises:
        InvalidRecord: it is negative or larger.
    """
    if not 0 <= length <= len(data) - position:
        raise InvalidRecord(f"{length} bytes or items are declared, {len(data) - position} bytes are left")
    return length


def _integer(number: str) -> FieldType:
    packer = struct.Struct(f">{number}")
    size = packer.size

    def read(data: bytes, position: int) -> tuple[int, int]:
        return packer.unpack_from(data, position)[0], position + size

    def write(output: bytearray, value: int) -> None:
        output += packer.pack(value)

    codec = ValueCodec(read, write, number)
    return lambda _version, _flexible: codec


INT8 = _integer("b")
INT16 = _integer("h")
INT32 = _integer("i")
INT64 = _integer("q")


def UUID_BYTES(_version: int, _flexible: bool) -> ValueCodec:  # noqa: N802  (a type like INT32)
    """Sixteen bytes."""

    def read(data: bytes, position: int) -> tuple[UUID, int]:
        checked_length(_UUID_BYTES, data, position)
        return UUID(bytes=data[position : position + _UUID_BYTES]), position + _UUID_BYTES

    def write(output: bytearray, value: UUID) -> None:
        output += value.bytes

    return ValueCodec(read, write)


def _length_reader(narrow: struct.Struct, flexible: bool) -> Reader:
    """Return the reader of a length, -1 for null: `narrow` or, in flexible versions, a varint one too large."""

    def read_compact(data: bytes, position: int) -> tuple[int, int]:
        length, position = read_unsigned_varint(data, position)
        return length - 1, position

    def read_fixed(data: bytes, position: int) -> tuple[int, int]:
        return narrow.unpack_from(data, position)[0], position + narrow.size

    return read_compact if flexible else read_fixed


def NULLABLE_STRING(_version: int, flexible: bool) -> ValueCodec:  # noqa: N802
    """UTF-8 text or null."""
    read_length = _length_reader(_INT16, flexible)

    def read(data: bytes, position: int) -> tuple[str | None, int]:
        length, position = read_length(data, position)
        if length == -1:
            return None, position
        end = position + checked_length(length, data, position)
        return data[position:end].decode(), end

    def write(output: bytearray, value: str | None) -> None:
        output += string(value, flexible=flexible)

    return ValueCodec(read, write)


def _never_null(type_: FieldType, version: int, flexible: bool) -> ValueCodec:
    nullable = type_(version, flexible)

    def read(data: bytes, position: int) -> tuple[Any, int]:
        value, position = nullable.read(data, position)
        if value is None:
            raise InvalidRecord("null is not allowed")
        return value, position

    def write(output: bytearray, value: object) -> None:
        assert value is not None
        nullable.write(output, value)

    return ValueCodec(read, write)


def STRING(version: int, flexible: bool) -> ValueCodec:  # noqa: N802
    """UTF-8 text."""
    return _never_null(NULLABLE_STRING, version, flexible)


def BYTES(_version: int, flexible: bool) -> ValueCodec:  # noqa: N802
    """A byte string."""
    read_length = _length_reader(_INT32, flexible)

    def read(data: bytes, position: int) -> tuple[bytes, int]:
        length, position = read_length(data, position)
        end = position + checked_length(length, data, position)
        return data[position:end], end

    def write(output: bytearray, value: bytes) -> None:
        output += bytes_length(len(value), flexible=flexible)
        output += value

    return ValueCodec(read, write)


def array_of(item_type: FieldType) -> FieldType:
    """Return the type of an array, which is a tuple in memory."""

    def codec(version: int, flexible: bool) -> ValueCodec:
        read_length = _length_reader(_INT32, flexible)
        item = item_type(version, flexible)

        def read(data: bytes, position: int) -> tuple[tuple[Any, ...], int]:
            count, position = read_length(data, position)
            items = []
            for _ in range(checked_length(count, data, position)):
                value, position = item.read(data, position)
                items.append(value)
            return tuple(items), position

        def write(output: bytearray, values: Sequence[object]) -> None:
            output += bytes_length(len(values), flexible=flexible)
            for value in values:
                item.write(output, value)

        return ValueCodec(read, write)

    return codec


def nullable_array_of(item_type: FieldType) -> FieldType:
    """Return the type of an array that may be null; a tuple or None in memory."""
    array = array_of(item_type)

    def codec(version: int, flexible: bool) -> ValueCodec:
        read_length = _length_reader(_INT32, flexible)
        of_items = array(version, flexible)

        def read(data: bytes, position: int) -> tuple[tuple[Any, ...] | None, int]:
            length, after = read_length(data, position)
            return (None, after) if length == -1 else of_items.read(data, position)

        def write(output: bytearray, values: Sequence[object] | None) -> None:
            if values is None:
                output += bytes_length(-1, flexible=flexible)
            else:
                of_items.write(output, values)

        return ValueCodec(read, write)

    return codec


def struct_of(message_type: type, *fields: Field) -> FieldType:
    """Return the type of a nested dataclass."""
    return lambda version, flexible: struct_codec(message_type, fields, version, flexible)


def nullable_struct_of(message_type: type, *fields: Field) -> FieldType:
    """Return the type of a nested dataclass that may be null: a byte 0 if it is, else a byte 1 and the struct."""

    def codec(version: int, flexible: bool) -> ValueCodec:
        inner = struct_codec(message_type, fields, version, flexible)

        def read(data: bytes, position: int) -> tuple[Any, int]:
            if data[position] == 0:
                return None, position + 1
            return inner.read(data, position + 1)

        def write(output: bytearray, value: object) -> None:
            output.append(0 if value is None else 1)
            if value is not None:
                inner.write(output, value)

        return ValueCodec(read, write)

    return codec
