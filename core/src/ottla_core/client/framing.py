"""What every client of the protocol frames alike: requests, the size of what is coming, correlation ids. Pure."""

import struct
from typing import Final

from kio.static.protocol import Entity

from ottla_core.errors import InvalidResponse
from ottla_core.wire.messages import RequestHeader, message_codec

_LENGTH: Final = struct.Struct(">i")
LENGTH_SIZE: Final = _LENGTH.size
CORRELATION_ID_SIZE: Final = 4
_CORRELATION_ID_MAX: Final = 0x7FFFFFFF


class CorrelationIds:
    """Draws one id after the other, and begins anew before they become negative."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        """Return an id that was not drawn in a long time."""
        self._last = (self._last + 1) & _CORRELATION_ID_MAX
        return self._last


def request_frame(api_key: int, version: int, correlation_id: int, client_id: str, request: Entity) -> bytes:
    """Return a whole frame, its length included; the request is of this version's class."""
    header = RequestHeader(api_key, version, correlation_id, client_id, 0)
    frame = message_codec(api_key, version).encode_request(header, request)
    return _LENGTH.pack(len(frame)) + frame


def response_size(buffer: bytes | bytearray | memoryview, start: int, size_max: int) -> int:
    """Return how many bytes of a response follow its length, which stands at `start`.

    Raises:
        InvalidResponse: no broker sends so many, or so few.
    """
    size: int = _LENGTH.unpack_from(buffer, start)[0]
    if not CORRELATION_ID_SIZE <= size <= size_max:
        raise InvalidResponse(f"a frame of {size} bytes; {size_max} is the most")
    return size


def correlation_id_of(frame: bytes) -> int:
    """Return the correlation id of a response's whole frame."""
    found: int = _LENGTH.unpack_from(frame, LENGTH_SIZE)[0]
    return found
