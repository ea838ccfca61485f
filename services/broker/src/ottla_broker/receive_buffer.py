"""Memory for requests that are still arriving.

Most requests fit into one read and are handled straight out of the listener's shared buffer, so a connection that
is idle holds no memory at all. A larger frame gets a buffer of its own, which grows with what has really arrived
(a length prefix that promises more costs nothing) and goes back to a pool when the frame is complete, so that a
busy producer's megabyte frames do not pay for fresh pages each time.
"""

from collections import defaultdict

SMALLEST_BUFFER_BYTES = 4 * 1024
UNRESERVED_FRAME_BYTES = 64 * 1024
POOLED_BYTES_MAX = 32 * 1024 * 1024
"""How much the pool keeps for reuse; what is given back beyond that is freed."""


class BufferPool:
    """Reusable buffers in sizes that are powers of two."""

    def __init__(self, pooled_bytes_max: int = POOLED_BYTES_MAX) -> None:
        self._free: defaultdict[int, list[bytearray]] = defaultdict(list)
        self._pooled_bytes = 0
        self._pooled_bytes_max = pooled_bytes_max

    def take(self, size: int) -> bytearray:
        """Return a buffer of at least `size` bytes with arbitrary content."""
        return self.take_pooled(size) or bytearray(_rounded(size))

    def take_pooled(self, size: int) -> bytearray | None:
        """Return a buffer of at least `size` bytes if the pool holds one, which costs no new memory."""
        rounded = _rounded(size)
        free = self._free[rounded]
        if not free:
            return None
        self._pooled_bytes -= rounded
        return free.pop()

    def give_back(self, buffer: bytearray) -> None:
        """Return a buffer that nothing refers to any more."""
        if self._pooled_bytes + len(buffer) <= self._pooled_bytes_max:
            self._pooled_bytes += len(buffer)
            self._free[len(buffer)].append(buffer)


def _rounded(size: int) -> int:
    return max(SMALLEST_BUFFER_BYTES, 1 << (size - 1).bit_length())


class PartialFrame:
    """A frame that needs more than one read.

    Attributes:
        size: the frame's length without its prefix, in bytes.
        received: how many of them are here.
    """

    __slots__ = ("_buffer", "_pool", "received", "size")

    def __init__(self, pool: BufferPool, size: int, beginning: memoryview) -> None:
        self._pool = pool
        self.size = size
        self.received = len(beginning)
        self._buffer = pool.take_pooled(size) or pool.take(min(size, 2 * max(len(beginning), SMALLEST_BUFFER_BYTES)))
        self._buffer[: self.received] = beginning

    @property
    def complete(self) -> bool:
        """Whether the last byte has arrived."""
        return self.received == self.size

    def free_space(self) -> memoryview:
        """Return where the next bytes go: never beyond the frame's end, and never empty while incomplete."""
        if self.received == len(self._buffer):
            larger = self._pool.take(min(self.size, 4 * self.received))
            larger[: self.received] = self._buffer
            self._pool.give_back(self._buffer)
            self._buffer = larger
        return memoryview(self._buffer)[self.received : self.size]

    def content(self) -> memoryview:
        """Return the complete frame, read-only; it must not be kept beyond `release`."""
        assert self.complete
        return memoryview(self._buffer)[: self.size].toreadonly()

    def release(self) -> None:
        """Give the buffer back to the pool."""
        self._pool.give_back(self._buffer)


class RequestBudget:
    """How many bytes of arriving large frames the broker holds at once.

    A frame's whole size is reserved before it gets a buffer, so that every frame that has begun can be completed;
    connections whose reservation is refused stop reading and are woken when there is room. Frames of up to
    `UNRESERVED_FRAME_BYTES` need no reservation: a few that announce much must not hold up everybody's small ones.

    Attributes:
        limit: bytes in all.
        reserved: bytes promised at present.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.reserved = 0

    def reserve(self, size: int) -> bool:
        """Reserve room for a frame, or return False; an idle broker admits any frame that is legal."""
        if size <= UNRESERVED_FRAME_BYTES:
            return True
        if self.reserved and self.reserved + size > self.limit:
            return False
        self.reserved += size
        return True

    def release(self, size: int) -> None:
        """Give back what `reserve` granted."""
        if size <= UNRESERVED_FRAME_BYTES:
            return
        self.reserved -= size
        assert self.reserved >= 0
