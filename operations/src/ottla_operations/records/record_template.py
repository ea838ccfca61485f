r"""Lines in a layout of one's own, as `kcat -f` writes them. Pure.

`%t [%p] at %o: %k = %s\n` names topic, partition, offset, key and value; a line ends only where that is named.
The letters and escapes are those of kcat's manual page.
"""

import re
import struct
from collections.abc import Callable

from ottla_operations.records.field_codec import FieldCodec, readable
from ottla_operations.records.record_line import LineOptions, Record, shown

TOKENS = "%s %S %R %k %K %T %h %t %p %o %%"
_PART = re.compile(r"%(?P<token>.?)|\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<escape>.?)", re.DOTALL)
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\"}
_ABSENT = -1

Part = Callable[[Record], bytes]


class BadTemplate(ValueError):
    """A template with something in it that has no meaning; the message names it."""


def is_template(text: str) -> bool:
    """Return whether a text can only be a template, as it has one of its letters."""
    return "%" in text


def template_writer(template: str, options: LineOptions) -> Callable[[Record], bytes]:
    """Return the function that writes a record by a template; it raises `BadLine`.

    Args:
        template: with letters of `TOKENS`.
        options: what keys and values are, and the text for null.

    Raises:
        BadTemplate: it has another letter or escape.
    """
    tokens = _tokens(options)
    parts: list[Part] = []
    position = 0
    for found in _PART.finditer(template):
        parts.append(_fixed(template[position : found.start()].encode()))
        parts.append(_part(found, tokens))
        position = found.end()
    parts.append(_fixed(template[position:].encode()))
    return lambda record: b"".join(part(record) for part in parts)


def _part(found: re.Match[str], tokens: dict[str, Part]) -> Part:
    if found["hex"] is not None:
        return _fixed(bytes.fromhex(found["hex"]))
    if found["escape"] is not None:
        if found["escape"] not in _ESCAPES:
            raise BadTemplate(f"{found[0]} is no escape; there are \\n \\r \\t \\\\ and \\xNN")
        return _fixed(_ESCAPES[found["escape"]])
    if found["token"] not in tokens:
        raise BadTemplate(f"{found[0]} means nothing; there are {TOKENS}")
    return tokens[found["token"]]


def _tokens(options: LineOptions) -> dict[str, Part]:
    null = options.null_text or b""

    def text(name: str, data: bytes | None, codec: FieldCodec) -> bytes:
        return null if data is None else shown(name, data, codec)

    return {
        "s": lambda record: text("value", record.value, options.value_codec),
        "S": lambda record: _digits(_length(record.value)),
        "R": lambda record: struct.pack(">i", _length(record.value)),
        "k": lambda record: text("key", record.key, options.key_codec),
        "K": lambda record: _digits(_length(record.key)),
        "T": lambda record: _digits(record.timestamp),
        "h": _headers,
        "t": lambda record: (record.topic or "").encode(),
        "p": lambda record: _digits(record.partition),
        "o": lambda record: _digits(record.offset),
        "%": _fixed(b"%"),
    }


def _fixed(data: bytes) -> Part:
    return lambda _record: data


def _digits(number: int | None) -> bytes:
    return b"%d" % (_ABSENT if number is None else number)


def _length(data: bytes | None) -> int:
    return _ABSENT if data is None else len(data)


def _headers(record: Record) -> bytes:
    return b",".join(
        name.encode() + b"=" + (b"NULL" if value is None else readable(value)) for name, value in record.headers
    )
