"""Fields as Kafka's `Schema` writes them, of which MirrorMaker 2 makes its records: numbers are big-endian. Pure."""

import struct
from typing import Final

from ottla_core.errors import InvalidRecord

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")
STRING_BYTES_MAX: Final = 2**15 - 1


def string(text: str) -> bytes:
    """Return a string field; at most `STRING_BYTES_MAX` bytes of it, as a field has room for no more."""
    encoded = text.encode()[:STRING_BYTES_MAX].decode(errors="ignore").encode()
    return INT16.pack(len(encoded)) + encoded


class FieldReader:
    """Reads one field after the other.

    Args:
        data: the fields.
        what: of what they are, for messages.
    """

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._at = 0
        self._what = what

    def int16(self) -> int:
        """Return the next field; raises InvalidRecord, as do the others."""
        return self._number(INT16)

    def int32(self) -> int:
        """Return the next field."""
        return self._number(INT32)

    def int64(self) -> int:
        """Return the next field."""
        return self._number(INT64)

    def string(self) -> str:
        """Return the next field."""
        size = self._number(INT16)
        text = self._data[self._at : self._at + size]
        if size < 0 or len(text) < size:
            raise InvalidRecord(f"a {self._what} is cut short")
        self._at += size
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise InvalidRecord(f"a {self._what} has a text that is not UTF-8") from None

    def _number(self, form: struct.Struct) -> int:
        try:
            (number,) = form.unpack_from(self._data, self._at)
        except struct.error:
            raise InvalidRecord(f"a {self._what} is cut short") from None
        self._at += form.size
        return int(number)
