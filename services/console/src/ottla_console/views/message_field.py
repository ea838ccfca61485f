r"""How a key, a value or a header of a message is shown: decoded by itself, never longer than asked for. Pure.

What begins with a schema's id is shown by its schema where a registry knows it; JSON is laid out, with its own digits
and order; other text as it is; four or eight bytes that are no text as a number; the rest as hexadecimal bytes.
Control characters, among them those that steer terminals and those that turn the direction of writing, are written
out as ``\x1b`` or ``\u202e``.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ottla_operations.records.record_search import NOTHING

PREVIEW_CHARACTERS: Final = 600
WHOLE_CHARACTERS: Final = 1_000_000
HEX_BYTES_MAX: Final = 4_096
DEPTH_MAX: Final = 64
"""JSON that is deeper is not laid out: its indentation would be longer than itself."""
CONTROL: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
OPENING: Final = ("{", "[")
CLOSING: Final = ("}", "]")
INTEGERS: Final = {4: "32-bit number", 8: "64-bit number"}
BINARY_SHARE: Final = 0.3

Decode = Callable[[bytes], Any]
"""Returns the JSON value of what has a schema, and `NOT_DECODED` for anything else."""
NOT_DECODED: Final = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownField:
    """What is shown of some bytes.

    Attributes:
        kind: what they are, in words; ``null`` where there are none.
        text: for people.
        size: of the bytes; None where there are none.
        is_cut: whether there is more.
    """

    kind: str
    text: str
    size: int | None
    is_cut: bool = False


def shown_field(data: bytes | None, decode: Decode | None = None, most: int = PREVIEW_CHARACTERS) -> ShownField:
    """Return what is shown of some bytes.

    Args:
        data: they.
        decode: asks for what has a schema, or None.
        most: characters of the text.
    """
    if data is None:
        return ShownField(kind="null", text="", size=None)
    if data == b"":
        return ShownField(kind="empty", text="", size=0)
    decoded = decode(data) if decode is not None else NOT_DECODED
    if decoded is not NOT_DECODED:
        written = json.dumps(decoded, ensure_ascii=False, default=str)
        return _cut(_laid_out(written, 4 * most) or written, f"schema {int.from_bytes(data[1:5], 'big')}", data, most)
    part = data[: 4 * most]  # a character has at most four bytes
    text = _as_text(part, is_whole=len(part) == len(data))
    if text is None or (len(data) in INTEGERS and _has_control(text)):
        return _number_or_bytes(data, most)
    if laid_out := _json_laid_out(data, most):
        return _cut(laid_out, "JSON", data, most)
    kind = "binary" if _is_mostly_control(text) else "text"
    return (
        _number_or_bytes(data, most) if kind == "binary" else _cut(text, kind, data, most, more=len(part) < len(data))
    )


def escaped(text: str) -> str:
    """Return a text with its control characters written out."""
    return CONTROL.sub(lambda found: _escape(ord(found[0])), text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _cut(text: str, kind: str, data: bytes, most: int, *, more: bool = False) -> ShownField:
    return ShownField(kind=kind, text=escaped(text[:most]), size=len(data), is_cut=more or len(text) > most)


def _as_text(data: bytes, *, is_whole: bool) -> str | None:
    for dropped in range(1 if is_whole else 4):  # the last character may have been cut in two
        try:
            return data[: len(data) - dropped].decode()
        except UnicodeDecodeError:
            continue
    return None


def _has_control(text: str) -> bool:
    return CONTROL.search(text) is not None


def _is_mostly_control(text: str) -> bool:
    return len(CONTROL.findall(text)) > BINARY_SHARE * len(text)


def _number_or_bytes(data: bytes, most: int) -> ShownField:
    if len(data) in INTEGERS:
        number = int.from_bytes(data, "big", signed=True)
        return ShownField(kind=INTEGERS[len(data)], text=f"{number} (0x{data.hex()})", size=len(data))
    length = min(HEX_BYTES_MAX, most // 3)
    return ShownField(kind="binary", text=data[:length].hex(" "), size=len(data), is_cut=len(data) > length)


def _json_laid_out(data: bytes, most: int) -> str | None:
    """Return JSON laid out; None if it is none, or too deep, or longer than a preview may have to read."""
    if data.lstrip()[:1] not in (b"{", b"[") or len(data) > max(64 * 1024, 4 * most):
        return None
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return None
    return _laid_out(data.decode("utf-8-sig", errors="replace"), 4 * most)


def _laid_out(text: str, most: int) -> str | None:
    """Return well-formed JSON with a member a line, up to a length; every token stays as it was written."""
    lines: list[str] = []
    line, depth, length, before = "", 0, 0, ""
    for found in TOKEN.finditer(text):
        part = found[0]
        if part in CLOSING:
            depth -= 1
        is_new_line = before not in OPENING if part in CLOSING else before in OPENING or before == ","
        if is_new_line:
            lines.append(line)
            length += len(line)
            line = "  " * depth
        line += ": " if part == ":" else part
        depth += part in OPENING
        before = part
        if depth > DEPTH_MAX:
            return None
        if length > most:
            break
    return "\n".join([*lines, line])
