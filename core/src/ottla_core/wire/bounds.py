"""A check of every length in a message before kio decodes it. Pure.

kio's reader allocates room for as many array items as the message announces. Seven hostile bytes can announce four
thousand million, and the failing allocation ends the process. `bounds_checker` walks over a message without
building anything and refuses a count or length that the remaining bytes cannot hold; each item takes at least one.

The walk is compiled once per message class into nested functions `(frame, position) -> position`. Runs of fields of
fixed size are one addition, and so is an array whose items all have the same fixed size.
"""

import struct
import types
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

from kio.static.protocol import Entity

from ottla_core.errors import InvalidRequest

Walk = Callable[[memoryview, int], int]
"""Returns the position behind what it walked over; raises IndexError or struct.error beyond the frame's end."""

_FIXED_SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "float64": 8,
    "uuid": 16,
}
ITEMS_MAX = 100_000
"""Array items of one message, nested ones included. No honest request names more topics and partitions; a hundred
megabytes of empty strings would stall the broker for minutes."""
NUMBERS_PER_ITEM = 10
"""So many numbers in an array count as one item: they are that much faster to decode."""
TAGGED_FIELDS_MAX = 100
_VARINT_SHIFT_MAX = 28
_int16 = struct.Struct(">h").unpack_from
_int32 = struct.Struct(">i").unpack_from


class _ItemAllowance:
    """How many more array items a message may have."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise InvalidRequest("a message with more array items than its API allows")


_items: ContextVar[_ItemAllowance] = ContextVar("items")
"""Of the message at hand: one may be checked in a thread while another is on the event loop."""


class _Shape(NamedTuple):
    """How to walk over a value: by a fixed number of bytes, or by a function."""

    fixed_size: int | None
    walk: Walk


@cache
def bounds_checker(message: type[Entity]) -> Callable[[memoryview, int, int], None]:
    """Return a function that checks the message that begins at an offset of a frame.

    The function raises InvalidRequest if a count or length is more than the frame holds, or if the message has more
    array items than its last argument says. That the values are of
    the right kind, and that nothing is null that must not be, is left to kio.
    """
    walk = _entity(message).walk

    def check(frame: memoryview, offset: int, items_max: int) -> None:
        _items.set(_ItemAllowance(items_max))
        try:
            end = walk(frame, offset)
        except (IndexError, struct.error):
            end = len(frame) + 1
        if end > len(frame):
            raise InvalidRequest(f"{message.__name__} v{message.__version__} ends before it is complete")

    return check


def read_unsigned_varint(frame: memoryview, position: int) -> tuple[int, int]:
    """Return a varint and the position behind it.

    Raises:
        InvalidRequest: it has more than five bytes.
        IndexError: it reaches beyond the frame.
    """
    value = shift = 0
    while True:
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > _VARINT_SHIFT_MAX:
            raise InvalidRequest("a varint has more than five bytes")


def skip_tagged_fields(frame: memoryview, position: int) -> int:
    """Return the position behind a section of tagged fields; nearly always that is one zero byte.

    Raises:
        InvalidRequest: a field reaches beyond the frame.
        IndexError: so does the section.
    """
    if frame[position] == 0:
        return position + 1
    count, position = _read_tagged_field_count(frame, position)
    for _ in range(count):
        _, position = read_unsigned_varint(frame, position)
        size, position = read_unsigned_varint(frame, position)
        _check_count(frame, position, size)
        position += size
    return position


def _read_tagged_field_count(frame: memoryview, position: int) -> tuple[int, int]:
    count, position = read_unsigned_varint(frame, position)
    if count > TAGGED_FIELDS_MAX:
        raise InvalidRequest(f"{count} tagged fields; {TAGGED_FIELDS_MAX} is the most")
    return count, position


def _check_count(frame: memoryview, position: int, count: int) -> None:
    if count > len(frame) - position:
        raise InvalidRequest(f"{count} items or bytes are announced, {len(frame) - position} bytes follow")


def _skip(size: int) -> Walk:
    return lambda _frame, position: position + size


@cache
def _entity(message: type[Entity]) -> _Shape:
    """Return the shape of a message class, with consecutive fixed fields taken together."""
    hints = get_type_hints(message)
    shapes: list[_Shape] = []
    tagged: dict[int, _Shape] = {}
    for field in fields(message):
        shape = _value(hints[field.name], field.metadata.get("kafka_type", ""), flexible=message.__flexible__)
        if (tag := field.metadata.get("tag")) is not None:
            tagged[tag] = shape
        else:
            shapes.append(shape)
    walks: list[Walk] = []
    pending = 0
    for shape in shapes:
        if shape.fixed_size is not None:
            pending += shape.fixed_size
            continue
        walks += [_skip(pending), shape.walk] if pending else [shape.walk]
        pending = 0
    if not walks and not message.__flexible__:
        return _Shape(pending, _skip(pending))
    if pending:
        walks.append(_skip(pending))
    if message.__flexible__:
        walks.append(_tagged_fields(tagged) if tagged else skip_tagged_fields)
    return _Shape(None, _sequence(tuple(walks)))


def _sequence(walks: tuple[Walk, ...]) -> Walk:
    def walk(frame: memoryview, position: int) -> int:
        for step in walks:
            position = step(frame, position)
        return position

    return walk


def _value(hint: Any, kafka_type: str, *, flexible: bool) -> _Shape:
    nullable = get_origin(hint) in {Union, types.UnionType}
    if nullable:
        (hint,) = (argument for argument in get_args(hint) if argument is not types.NoneType)
    if get_origin(hint) is tuple:
        item: Any = get_args(hint)[0]
        shape = (
            _entity(cast("type[Entity]", item)) if is_dataclass(item) else _primitive(kafka_type, flexible=flexible)
        )
        return _Shape(None, _array(shape, flexible=flexible, of_numbers=kafka_type in _FIXED_SIZES))
    if is_dataclass(hint):
        shape = _entity(cast("type[Entity]", hint))
        return _Shape(None, _nullable(shape.walk)) if nullable else shape
    return _primitive(kafka_type, flexible=flexible)


def _primitive(kafka_type: str, *, flexible: bool) -> _Shape:
    size = _FIXED_SIZES.get(kafka_type)
    if size is not None:
        return _Shape(size, _skip(size))
    if flexible:
        return _Shape(None, _compact_bytes)
    return _Shape(None, _string if kafka_type == "string" else _bytes)


def _compact_bytes(frame: memoryview, position: int) -> int:
    size = frame[position]
    if size < 0x80:
        position += 1
    else:
        size, position = read_unsigned_varint(frame, position)
    return position + size - 1 if size else position


def _string(frame: memoryview, position: int) -> int:
    (size,) = _int16(frame, position)
    return position + 2 + max(size, 0)  # type: ignore[no-any-return]


def _bytes(frame: memoryview, position: int) -> int:
    (size,) = _int32(frame, position)
    return position + 4 + max(size, 0)  # type: ignore[no-any-return]


def _array(item: _Shape, *, flexible: bool, of_numbers: bool) -> Walk:
    fixed_size, walk_item = item

    def walk(frame: memoryview, position: int) -> int:
        if flexible:
            count, position = read_unsigned_varint(frame, position)
            count -= 1
        else:
            (count,) = _int32(frame, position)
            position += 4
        if count <= 0:
            return position
        _check_count(frame, position, count)
        _items.get().take(count // NUMBERS_PER_ITEM if of_numbers else count)
        if fixed_size is not None:
            return position + count * fixed_size
        for _ in range(count):
            position = walk_item(frame, position)
        return position

    return walk


def _nullable(walk_value: Walk) -> Walk:
    """Walk over a struct that a byte of -1 may stand for (KIP-893)."""

    def walk(frame: memoryview, position: int) -> int:
        is_null = frame[position] == 0xFF
        return position + 1 if is_null else walk_value(frame, position + 1)

    return walk


def _tagged_fields(known: dict[int, _Shape]) -> Walk:
    def walk(frame: memoryview, position: int) -> int:
        if frame[position] == 0:
            return position + 1
        count, position = _read_tagged_field_count(frame, position)
        for _ in range(count):
            tag, position = read_unsigned_varint(frame, position)
            size, position = read_unsigned_varint(frame, position)
            _check_count(frame, position, size)
            end = position + size
            if tag in known and known[tag].walk(frame[:end], position) > end:
                raise InvalidRequest(f"tagged field {tag} does not fit into its {size} bytes")
            position = end
        return position

    return walk
