r"""How the bytes of a key or a value are shown, and read back. Pure.

`text` is for people: what is no text has its bytes escaped, as in ``\x00\xff``. `raw` leaves bytes as they are,
`base64` and `hex` show any bytes exactly. `json` is a document in one line. Numbers are those that Kafka's
serializers write: big-endian, of a fixed length.
"""

import base64
import binascii
import json
import re
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol


class BadField(ValueError):
    """A key or value that is not what its format says; the message says why, and follows the word "it"."""


class FieldFormat(StrEnum):
    """What the bytes of a key or a value are."""

    TEXT = "text"
    RAW = "raw"
    BASE64 = "base64"
    HEX = "hex"
    JSON = "json"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    SCHEMA = "schema"
    AVRO = "avro"
    JSON_SCHEMA = "json-schema"
    PROTOBUF = "protobuf"


OF_REGISTRY = frozenset({FieldFormat.SCHEMA, FieldFormat.AVRO, FieldFormat.JSON_SCHEMA, FieldFormat.PROTOBUF})
"""Formats that need a schema registry; `schema` is whichever of the others the registry says."""

_NUMBERS = {
    FieldFormat.INT16: ">h",
    FieldFormat.INT32: ">i",
    FieldFormat.INT64: ">q",
    FieldFormat.FLOAT32: ">f",
    FieldFormat.FLOAT64: ">d",
}
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\udc80-\udcff]")
"""Control characters, which would also steer a terminal, and what is no UTF-8; but not tab and line ends."""


class FieldCodec(Protocol):
    """One format; every function raises `BadField` for what does not fit."""

    is_plain: bool
    """Whether a JSON document that is published stays as it stands, rather than being read with `from_json`."""

    def to_field(self, name: str, data: bytes) -> dict[str, Any]:
        """Return bytes as a JSON object's field of this name, or of ``<name>_base64``."""

    def to_text(self, data: bytes) -> bytes:
        """Return bytes as they are shown in a line."""

    def to_json(self, data: bytes) -> Any:
        """Return bytes as a JSON value."""

    def from_text(self, text: bytes) -> bytes:
        """Return the bytes that a part of a line stands for."""

    def from_json(self, value: Any) -> bytes:
        """Return the bytes that a JSON value stands for; it is not null."""


def plain_codec(format_: FieldFormat) -> FieldCodec:
    """Return the codec of a format that needs no schema registry."""
    assert format_ not in OF_REGISTRY
    match format_:
        case FieldFormat.TEXT:
            return PlainCodec(readable)
        case FieldFormat.RAW:
            return PlainCodec(bytes)
        case FieldFormat.BASE64:
            return EncodedCodec(base64.b64encode, _from_base64)
        case FieldFormat.HEX:
            return EncodedCodec(binascii.hexlify, _from_hex)
        case FieldFormat.JSON:
            return JsonCodec()
        case _:
            return NumberCodec(format_)


class DecodedCodec(ABC):
    """What the codecs share that turn bytes into values of JSON."""

    is_plain = False

    def to_field(self, name: str, data: bytes) -> dict[str, Any]:
        """Return the value under the name."""
        return {name: self.to_json(data)}

    @abstractmethod
    def to_json(self, data: bytes) -> Any:
        """Return bytes as a JSON value."""


class PlainCodec:
    """Bytes as they are; `show` is how they look in a line."""

    is_plain = True

    def __init__(self, show: Callable[[bytes], bytes]) -> None:
        self.to_text = show

    def to_field(self, name: str, data: bytes) -> dict[str, Any]:
        """Return text under the name itself, anything else as base64 under ``<name>_base64``."""
        return bytes_field(name, data)

    def to_json(self, data: bytes) -> Any:
        """Return the text; bytes that are no text are escaped."""
        return readable(data).decode()

    def from_text(self, text: bytes) -> bytes:
        """Return the same bytes."""
        return text

    def from_json(self, value: Any) -> bytes:
        """Return a string's own text, and any other value as JSON."""
        if not isinstance(value, str):
            return compact_json(value)
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise BadField("has half of a surrogate pair") from None


class EncodedCodec(DecodedCodec):
    """Any bytes as text of a few letters, exactly."""

    def __init__(self, encode: Callable[[bytes], bytes], decode: Callable[[bytes], bytes]) -> None:
        self.to_text = encode
        self.from_text = decode

    def to_json(self, data: bytes) -> Any:
        """Return the encoded text."""
        return self.to_text(data).decode()

    def from_json(self, value: Any) -> bytes:
        """Return what an encoded text stands for."""
        if not isinstance(value, str):
            raise BadField("is no string")
        return self.from_text(value.encode())


class JsonCodec(DecodedCodec):
    """A JSON document, in one line however it was written."""

    def to_text(self, data: bytes) -> bytes:
        """Return the document in one line."""
        return compact_json(parse_json(data))

    def to_json(self, data: bytes) -> Any:
        """Return the document."""
        return parse_json(data)

    def from_text(self, text: bytes) -> bytes:
        """Return the document as it stands."""
        parse_json(text)
        return text

    def from_json(self, value: Any) -> bytes:
        """Return the document in one line."""
        return compact_json(value)


class NumberCodec(DecodedCodec):
    """A number of fixed length."""

    def __init__(self, format_: FieldFormat) -> None:
        self._name = format_.value
        self._struct = struct.Struct(_NUMBERS[format_])
        self._parse: Callable[[str], int | float] = int if format_.value.startswith("int") else float

    def to_text(self, data: bytes) -> bytes:
        """Return its digits."""
        return repr(self.to_json(data)).encode()

    def to_json(self, data: bytes) -> Any:
        """Return the number."""
        if len(data) != self._struct.size:
            raise BadField(f"is no {self._name}: it has {len(data)} bytes, not {self._struct.size}")
        return self._struct.unpack(data)[0]

    def from_text(self, text: bytes) -> bytes:
        """Return the bytes of a number."""
        try:
            return self._struct.pack(self._parse(text.decode()))
        except (ValueError, struct.error, OverflowError):
            raise BadField(f"is no {self._name}: {readable(text).decode()}") from None

    def from_json(self, value: Any) -> bytes:
        """Return the bytes of a number; a string is read as one."""
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise BadField(f"is no {self._name}")
        return self.from_text(str(value).encode())


def readable(data: bytes) -> bytes:
    r"""Return text as it is, and anything that is none with its bytes escaped as ``\xNN``."""
    text = data.decode(errors="surrogateescape")
    if _NO_TEXT.search(text) is None:
        return data
    return _NO_TEXT.sub(lambda found: f"\\x{ord(found[0]) & 0xFF:02x}", text).encode()


def bytes_field(name: str, data: bytes | None) -> dict[str, str | None]:
    """Return bytes as one JSON field: text under the name itself, anything else as base64 under ``<name>_base64``."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def parse_json(data: bytes) -> Any:
    """Return a JSON document.

    Raises:
        BadField: it is malformed.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadField(f"is no JSON ({error})") from None


def compact_json(value: Any) -> bytes:
    """Return a JSON value in one line."""
    return json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace")


def _from_base64(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadField("is no base64") from None


def _from_hex(text: bytes) -> bytes:
    try:
        return binascii.unhexlify(text)
    except (binascii.Error, ValueError):
        raise BadField("is no hexadecimal number of whole bytes") from None
