"""The bytes of a `FileLog`'s file: a line that names the format, then records. Pure.

A record is a marker, the CRC-32 and the length of what follows it, then its body: the key's length, the key, and the
value if there is one. A crash while records are appended leaves the last of them incomplete: what cannot be read is
then the file's end and was never confirmed to anybody, so it may go. Damage that has whole records behind it is
another matter: those were confirmed, and what is damaged may have been too.
"""

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from ottla_connect.state.config_records import Write

HEADER = b"ottla connect log 1\n"
JAVA_SERIALIZATION = b"\xac\xed"
RECORD_BYTES_MAX = 64 * 1024 * 1024

_MARKER = b"\x91OCL"
_HEAD = struct.Struct(">4sII")
_KEY_LENGTH = struct.Struct(">I?")


class DamagedFile(Exception):
    """The file is not what this program wrote; the message says where."""


class Scanned(NamedTuple):
    """What a file holds: its records, and where the last whole one ends."""

    writes: list[Write]
    end: int


def encode(writes: Sequence[Write]) -> bytes:
    """Return the bytes of records."""
    return b"".join(map(_encode, writes))


def encoded_size(write: Write) -> int:
    """Return how many bytes a record has in the file."""
    return _HEAD.size + _KEY_LENGTH.size + len(write.key) + len(write.value or b"")


def scan(content: bytes) -> Scanned:
    """Return the records of a file, without an incomplete last one.

    Raises:
        DamagedFile: it is another file, or it is damaged before its end.
    """
    if content.startswith(JAVA_SERIALIZATION):
        raise DamagedFile(
            "it was written by Kafka's standalone worker, as serialized Java objects; take another file"
        )
    if not content.startswith(HEADER):
        if HEADER.startswith(content):
            return Scanned([], 0)  # a crash while it was made
        raise DamagedFile("it does not begin as such a file does")
    writes: list[Write] = []
    position = len(HEADER)
    while position < len(content):
        record = _decode(content, position)
        if record is None:
            if (further := _next_record(content, position + 1)) is not None:
                raise DamagedFile(
                    f"bytes {position} to {further} are damaged, and records follow; restore it from a backup"
                )
            break
        write, position = record
        writes.append(write)
    return Scanned(writes, position)


def _encode(write: Write) -> bytes:
    body = _KEY_LENGTH.pack(len(write.key), write.value is not None) + write.key + (write.value or b"")
    assert len(body) <= RECORD_BYTES_MAX, f"a record of {len(body)} bytes is too long"
    return _HEAD.pack(_MARKER, zlib.crc32(body), len(body)) + body


def _decode(content: bytes, position: int) -> tuple[Write, int] | None:
    """Return the record at a position and where it ends; None if there is no whole one."""
    start = position + _HEAD.size
    if start > len(content):
        return None
    marker, crc, length = _HEAD.unpack_from(content, position)
    end = start + length
    if marker != _MARKER or not _KEY_LENGTH.size <= length <= RECORD_BYTES_MAX or end > len(content):
        return None
    body = content[start:end]
    if zlib.crc32(body) != crc:
        return None
    key_length, has_value = _KEY_LENGTH.unpack_from(body)
    key_end = _KEY_LENGTH.size + key_length
    if key_end > len(body):
        return None
    return Write(body[_KEY_LENGTH.size : key_end], body[key_end:] if has_value else None), end


def _next_record(content: bytes, position: int) -> int | None:
    """Return where the next whole record begins."""
    while (position := content.find(_MARKER, position)) >= 0:
        if _decode(content, position) is not None:
            return position
        position += 1
    return None
