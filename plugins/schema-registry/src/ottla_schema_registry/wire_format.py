"""How a value says by which schema it was written: Confluent's wire format.

| bytes | |
|---|---|
| 0, id (4 bytes, big-endian) | the schema's number in the registry |
| 1, GUID (16 bytes) | the schema's name that is the same in every registry; only in headers |

What follows is the value; in Protobuf, first the way to its message type in the file: how many numbers, and the
numbers themselves (the place among the file's messages, then among the messages within that, and so on), as zigzag
varints. A single 0 stands for the first message. A GUID stands, with these numbers, in a header.
"""

import uuid
from collections.abc import Sequence
from typing import NamedTuple

from ottla_sdk import DataError

MAGIC_ID = 0
MAGIC_GUID = 1
ID_HEADERS = {True: "__key_schema_id", False: "__value_schema_id"}
"""Headers that hold GUIDs, of keys and of values."""
INDEXES_MAX = 64
"""Deeper nesting of messages is refused."""

_ID_SIZE = 5
_GUID_SIZE = 17


class SchemaReference(NamedTuple):
    """Which schema a value was written by, and where the value begins.

    Attributes:
        id: the number in the registry, or the GUID.
        start: where what follows begins.
    """

    id: int | str
    start: int


def read_id(data: bytes) -> SchemaReference:
    """Return the schema that the first bytes name.

    Raises:
        DataError: they name none.
    """
    magic = data[0] if data else -1
    if magic == MAGIC_ID and len(data) >= _ID_SIZE:
        return SchemaReference(int.from_bytes(data[1:_ID_SIZE], "big"), _ID_SIZE)
    if magic == MAGIC_GUID and len(data) >= _GUID_SIZE:
        return SchemaReference(str(uuid.UUID(bytes=data[1:_GUID_SIZE])), _GUID_SIZE)
    raise DataError(
        f"the value begins with {data[:5]!r}, not with a schema's id: it was not written with a schema registry"
    )


def write_id(schema_id: int) -> bytes:
    """Return the first bytes of a value."""
    return bytes((MAGIC_ID,)) + schema_id.to_bytes(4, "big")


def id_from_headers(headers: Sequence[tuple[str, bytes | None]], *, is_key: bool) -> bytes | None:
    """Return what the last header that names a schema says; None if there is none."""
    name = ID_HEADERS[is_key]
    return next((value for key, value in reversed(headers) if key == name and value is not None), None)


def read_indexes(data: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """Return the way to a message type, and where the value begins.

    Raises:
        DataError: the bytes end before, or the way is too long.
    """
    count, at = _read_varint(data, start)
    if count == 0:
        return (0,), at
    if not 0 < count <= INDEXES_MAX:
        raise DataError(f"a message type {count} levels deep")
    indexes = []
    for _ in range(count):
        index, at = _read_varint(data, at)
        indexes.append(index)
    return tuple(indexes), at


def write_indexes(indexes: tuple[int, ...]) -> bytes:
    """Return the way to a message type."""
    if indexes == (0,):
        return b"\0"
    return b"".join(map(_write_varint, (len(indexes), *indexes)))


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value >> 1 ^ -(value & 1), at
    raise DataError("the way to the message type is cut off, or no number")


def _write_varint(value: int) -> bytes:
    left = value << 1 ^ value >> 31
    written = bytearray()
    while left > 0x7F:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    written.append(left)
    return bytes(written)
