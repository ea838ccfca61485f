"""Memory for requests that are still arriving. Pure.

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
_GROWTH = 4


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

    __slots__ = ("_buffer", "_pool", "_window_began", "_window_missed", "_window_received", "received", "size")

    def __init__(self, pool: BufferPool, size: int, beginning: memoryview, now: float = 0.0) -> None:
        self._pool = pool
        self.size = size
        self.received = len(beginning)
        self._buffer = pool.take_pooled(size) or pool.take(first_buffer_bytes(size, len(beginning)))
        self._buffer[: self.received] = beginning
        self._window_began = now
        self._window_received = self.received
        self._window_missed = False

    @property
    def complete(self) -> bool:
        """Whether the last byte has arrived."""
        return self.received == self.size

    @property
    def must_grow(self) -> bool:
        """Whether more of it can be received only when it has more memory."""
        return self.received == len(self._buffer)

    @property
    def buffer_bytes(self) -> int:
        """The memory that the frame has, or has to be given before more of it can be received."""
        return min(self.size, _GROWTH * self.received) if self.must_grow else len(self._buffer)

    def free_space(self) -> memoryview:
        """Return where the next bytes go: never beyond the frame's end, and never empty while incomplete."""
        if self.must_grow:
            larger = self._pool.take(self.buffer_bytes)
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

    def falls_behind(self, now: float, window_s: float, bytes_per_second_min: float) -> bool:
        """Return whether too little has come for two windows on end, of at least `window_s` each.

        One such window may be ours: a loop that was held up has not read yet what is there.
        """
        elapsed = now - self._window_began
        if elapsed < window_s:
            return False
        missed = self.received - self._window_received < elapsed * bytes_per_second_min
        missed_before, self._window_missed = self._window_missed, missed
        self._window_began, self._window_received = now, self.received
        return missed and missed_before

    def restart_window(self, now: float) -> None:
        """Count from now on: it was not the client's fault that nothing came."""
        self._window_began, self._window_received, self._window_missed = now, self.received, False


def first_buffer_bytes(size: int, received: int) -> int:
    """Return the size of the buffer that a frame begins with, unless the pool has one for the whole of it."""
    return min(size, 2 * max(received, SMALLEST_BUFFER_BYTES))


class RequestBudget:
    """How many bytes of arriving large frames the broker holds at once.

    A frame is charged for the memory that it has, which grows with what has arrived: what a length prefix announces
    holds nobody up. Where growing would exceed the limit, a connection stops reading and is woken when there is room.
    The frame that has been charged for the longest time may always grow, or several could wait for each other for
    ever; so the limit is exceeded by one request at most. Frames of up to `UNRESERVED_FRAME_BYTES` are not charged:
    the small ones of others must not wait either.

    Attributes:
        limit: bytes in all.
        reserved: bytes charged at present.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.reserved = 0
        self._charged: dict[object, int] = {}

    def reserve(self, owner: object, size_bytes: int) -> bool:
        """Charge an owner with so much memory in all, or return False and leave its charge as it is."""
        if size_bytes <= UNRESERVED_FRAME_BYTES:
            return True
        additional = size_bytes - self._charged.get(owner, 0)
        if self.reserved + additional > self.limit and next(iter(self._charged), owner) is not owner:
            return False
        self._charged[owner] = size_bytes
        self.reserved += additional
        return True

    def release(self, owner: object) -> None:
        """Charge an owner with nothing any more."""
        self.reserved -= self._charged.pop(owner, 0)
