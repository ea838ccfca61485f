"""The group that a request is about, read without the rest of the message. Pure.

The requests that members send all the time begin with their group's id. A broker needs no more of them to pass them
on; the group's coordinator reads and checks them whole, and to do it twice would cost a tenth of the whole way.
Source: Kafka's schemas of Heartbeat, OffsetCommit and ConsumerGroupHeartbeat.
"""

import struct
from typing import NamedTuple

from ottla_core.errors import InvalidRequest
from ottla_core.wire.bounds import read_unsigned_varint

_INT16 = struct.Struct(">h")


class GroupMessage(NamedTuple):
    """What was read of a request."""

    group_id: str


def read_group_id(frame: memoryview, offset: int, *, flexible: bool) -> str:
    """Return the group id.

    Args:
        frame: the request without its length.
        offset: where the message begins.
        flexible: whether the version has compact strings.

    Raises:
        InvalidRequest: no string is there.
    """
    try:
        if flexible:
            length, begin = frame[offset], offset + 1
            if length >= 0x80:  # most are short
                length, begin = read_unsigned_varint(frame, offset)
            length -= 1
        else:
            (length,), begin = _INT16.unpack_from(frame, offset), offset + _INT16.size
        if not 0 <= length <= len(frame) - begin:
            raise InvalidRequest(f"a group id of {length} bytes in a frame of {len(frame)} bytes")
        return str(frame[begin : begin + length], "utf-8")
    except (IndexError, ValueError, struct.error) as error:
        raise InvalidRequest(f"the request begins with no group id: {error}") from None
