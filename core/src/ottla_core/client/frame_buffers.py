"""Buffers of large answers, used again once nobody has a view of them. Pure.

To allocate a megabyte for each answer means that the kernel maps, clears and unmaps its pages each time, which costs
more than to receive into them. Whether a buffer is free needs no book-keeping: a bytearray refuses to change its size
while there is a view of it, and whoever keeps a part of an answer keeps a view.

What is kept is bounded by `POOLED_BYTES_MAX`. Answers that find no place there get a buffer of their own, as do those
of more than half of it.
"""

from typing import Final

POOLED_BYTES_MAX: Final = 16 * 1024 * 1024
STEP_BYTES: Final = 256 * 1024
"""Sizes of buffers are multiples of it, so that answers of about the same size use the same ones."""
WASTE_MAX: Final = 2
"""A buffer may be so many times as large as what it is used for: who keeps a part of an answer keeps all of it."""


class FrameBuffers:
    """Some buffers, for all connections to one cluster. Not for several threads.

    Args:
        bytes_max: of all that are kept, in use or free.
    """

    __slots__ = ("_buffers", "_bytes_max", "size_bytes")

    def __init__(self, bytes_max: int = POOLED_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._buffers: list[bytearray] = []
        self.size_bytes = 0

    def take(self, size_bytes: int) -> memoryview:
        """Return writable memory of exactly this size, which is the caller's as long as there is a view of it.

        It holds whatever was in it before.
        """
        largest = WASTE_MAX * max(size_bytes, STEP_BYTES)
        for buffer in self._buffers:
            if size_bytes <= len(buffer) <= largest and _is_free(buffer):
                return memoryview(buffer)[:size_bytes]
        rounded = -(-size_bytes // STEP_BYTES) * STEP_BYTES
        if rounded > self._bytes_max // 2 or not self._make_room(rounded):
            return memoryview(bytearray(size_bytes))
        # With a byte more from the start, the test whether it is free never moves it.
        buffer = bytearray(rounded + 1)
        buffer.pop()
        self._buffers.append(buffer)
        self.size_bytes += rounded
        return memoryview(buffer)[:size_bytes]

    def _make_room(self, wanted_bytes: int) -> bool:
        """Drop free buffers, which are of other sizes, until one more fits in; return whether it does."""
        excess = self.size_bytes + wanted_bytes - self._bytes_max
        if excess <= 0:
            return True
        kept: list[bytearray] = []
        for buffer in self._buffers:
            if excess > 0 and _is_free(buffer):
                excess -= len(buffer)
                self.size_bytes -= len(buffer)
            else:
                kept.append(buffer)
        self._buffers = kept
        return excess <= 0


def _is_free(buffer: bytearray) -> bool:
    """Return whether nobody has a view of a buffer."""
    try:
        buffer.append(0)
    except BufferError:
        return False
    buffer.pop()
    return True
