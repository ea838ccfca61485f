"""The few Kafka primitives that hand-written encoders need; everything else is encoded by kio. Pure.

`flexible` chooses between the compact forms of KIP-482 (lengths as unsigned varints, plus one) and the older ones.
"""

import struct
from functools import lru_cache
from typing import Final

INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")

NO_TAGGED_FIELDS = b"\0"
VARINTS_KEPT_MAX: Final = 4096
"""The same few numbers and sizes come again and again, and to make the bytes takes five times as long."""


@lru_cache(VARINTS_KEPT_MAX)
def unsigned_varint(value: int) -> bytes:
    """Return seven bits per byte, the lowest first."""
    if 0x4000 <= value < 0x200000:  # the usual sizes of batches
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def array_length(count: int, *, flexible: bool) -> bytes:
    """Return the prefix of an array with `count` items."""
    return unsigned_varint(count + 1) if flexible else INT32.pack(count)


def null_array(*, flexible: bool) -> bytes:
    """Return an array that is null."""
    return b"\0" if flexible else b"\xff\xff\xff\xff"


def bytes_length(count: int, *, flexible: bool) -> bytes:
    """Return the prefix of a byte string with `count` bytes."""
    return unsigned_varint(count + 1) if flexible else INT32.pack(count)


def string(text: str | None, *, flexible: bool) -> bytes:
    """Return a nullable string."""
    if text is None:
        return b"\0" if flexible else b"\xff\xff"
    encoded = text.encode()
    return (unsigned_varint(len(encoded) + 1) if flexible else INT16.pack(len(encoded))) + encoded


def tagged_fields(*fields: tuple[int, bytes]) -> bytes:
    """Return a tagged-field section; tags in ascending order."""
    encoded = [unsigned_varint(len(fields))]
    for tag, value in fields:
        encoded += (unsigned_varint(tag), unsigned_varint(len(value)), value)
    return b"".join(encoded)
