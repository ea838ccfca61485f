"""Requests of a given size that ask for as much work as possible: lists that are as long as fits.

A request of an API is filled with values that make sense (`filled_request`), and one of its lists is then given as
many items as the size allows, once all alike and once all different. Items are repeated as bytes, because encoding a
hundred thousand of them takes longer than the service takes for the request.
"""

import dataclasses
import typing
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from tests.support.clients.raw_client import encode_request
from tests.support.messages.filled_request import filled_request

SIZE_MAX = 1024 * 1024
CORRELATION_ID = 1
PLACEHOLDER = "ottla-placeholder"
"""Stands in each item's names, for something else of the same length."""


@dataclasses.dataclass(frozen=True, slots=True)
class LargeRequest:
    """A frame without its length, and what is large about it."""

    name: str
    frame: bytes


ListPath = tuple[str, ...]


def large_requests(request_type: type[Any], *, topic: str, topic_id: UUID) -> Iterator[LargeRequest]:
    """Yield frames of at most `SIZE_MAX` bytes in which one list after the other is as long as can be."""
    version = f"{request_type.__name__} v{request_type.__version__}"
    for name in (topic, PLACEHOLDER):
        request = filled_request(request_type, topic=name, topic_id=topic_id)
        for path in list_paths(request):
            for item_name, item in (("full", True), ("bare", False)):
                frame = _with_long_list(request, path, keep_inner=item)
                if frame is None:
                    continue
                what = "alike" if name == topic else "different"
                yield LargeRequest(f"{version}: {'.'.join(path)} {item_name} {what}", frame)


def list_paths(message: Any) -> list[ListPath]:
    """Return where lists with an item are in a message, nested ones in the first item of their parents."""
    paths: list[ListPath] = []
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        if isinstance(value, tuple) and value:
            paths.append((field.name,))
            if dataclasses.is_dataclass(value[0]):
                paths += [(field.name, *path) for path in list_paths(value[0])]
        elif dataclasses.is_dataclass(value):
            paths += [(field.name, *path) for path in list_paths(value)]
    return paths


def _with_long_list(request: Any, path: ListPath, *, keep_inner: bool) -> bytes | None:
    once, twice = (_repeated(request, path, times, keep_inner=keep_inner) for times in (1, 2))
    short, longer = encode_request(once, CORRELATION_ID), encode_request(twice, CORRELATION_ID)
    item_size = len(longer) - len(short)
    at = next(place for place, (a, b) in enumerate(zip(short, longer, strict=False)) if a != b)
    flexible = type(request).__flexible__
    if not flexible:
        at -= 3
    begin = at + (1 if flexible else 4)
    item = short[begin : begin + item_size]
    count = (SIZE_MAX - len(short)) // item_size
    prefix = _varint(count + 1) if flexible else count.to_bytes(4)
    placeholder = PLACEHOLDER.encode()
    if placeholder in item:
        width = len(placeholder)
        items = b"".join(item.replace(placeholder, b"n%0*d" % (width - 1, n)) for n in range(count))
    else:
        items = item * count
    return short[:at] + prefix + items + short[begin + item_size :]


def _repeated(message: Any, path: ListPath, times: int, *, keep_inner: bool) -> Any:
    name, *rest = path
    value = getattr(message, name)
    if not isinstance(value, tuple):
        return dataclasses.replace(message, **{name: _repeated(value, tuple(rest), times, keep_inner=keep_inner)})
    if rest:
        inner = (_repeated(value[0], tuple(rest), times, keep_inner=keep_inner),)
        return dataclasses.replace(message, **{name: inner})
    item = value[0]
    if dataclasses.is_dataclass(item) and not keep_inner:
        item = dataclasses.replace(typing.cast("Any", item), **{field: () for (field, *_) in list_paths(item)})
    return dataclasses.replace(message, **{name: (item,) * times})


def _varint(value: int) -> bytes:
    output = bytearray()
    while value > 0x7F:
        output.append(value & 0x7F | 0x80)
        value >>= 7
    output.append(value)
    return bytes(output)
