"""What one side of a group relay stream has to say, gathered into messages.

A gRPC message costs tens of microseconds whatever it carries. So frames are queued, and all that have gathered while
the message before was on its way leave in the next one. While they come in numbers, a message also waits a moment for
more of them. One that comes alone never waits. The limits of a message are here too; both sides keep them.
"""

import asyncio
from collections import deque

from ottla_proto.gen.ottla.group_relay_pb2 import Frame, Frames

MESSAGE_BYTES_MAX = 16 * 1024 * 1024
"""Largest message of a stream; the broker's channel takes no larger one."""

FRAME_BYTES_MAX = 15 * 1024 * 1024
"""Largest Kafka request, response or stretch of records in a frame; leaves room for what surrounds it."""

GATHERED_BYTES_MAX = 1024 * 1024
"""Frames leave together up to this size; a larger one leaves alone."""

GATHERING_FRAMES_MIN = 2
"""A message of so many frames says that more are about to come, and that the next one had better wait for them."""

GATHERING_S = 0.001
"""How long after such a message the next one leaves at the earliest."""

FRAME_OVERHEAD_BYTES = 40
"""What a frame takes beside its payload, about."""


class FrameQueue:
    """Frames that wait to be sent, in order.

    Attributes:
        size_bytes: of all that wait, about.
    """

    def __init__(self) -> None:
        self._full: deque[tuple[Frames, int]] = deque()
        self._filling = Frames()
        self._filling_bytes = 0
        self._filled = asyncio.Event()
        self._taken = asyncio.Event()
        self._is_gathering = False
        self.size_bytes = 0

    def __len__(self) -> int:
        """Return how many messages wait."""
        return len(self._full) + (self._filling_bytes > 0)

    def put(self, frame: Frame) -> None:
        """Add a frame that exists already."""
        self.add(frame.ByteSize()).CopyFrom(frame)

    def add(self, payload_bytes: int) -> Frame:
        """Return a frame that was added, to be filled in before anything else runs.

        It is made inside its message, as copying it there would cost twice as much. How much may wait is for the
        caller to limit.
        """
        size = payload_bytes + FRAME_OVERHEAD_BYTES
        if self._filling_bytes and self._filling_bytes + size > GATHERED_BYTES_MAX:
            self._full.append((self._filling, self._filling_bytes))
            self._filling, self._filling_bytes = Frames(), 0
        self._filling_bytes += size
        self.size_bytes += size
        self._filled.set()
        return self._filling.frames.add()

    async def take(self) -> Frames:
        """Return the next message: at least one frame, and as many as wait and fit."""
        if self._is_gathering and not self._full:
            await asyncio.sleep(GATHERING_S)
        await self._filled.wait()
        if self._full:
            message, size = self._full.popleft()
        else:
            message, size = self._filling, self._filling_bytes
            self._filling, self._filling_bytes = Frames(), 0
            self._filled.clear()
        self._is_gathering = len(message.frames) >= GATHERING_FRAMES_MIN
        self.size_bytes -= size
        self._taken.set()
        return message

    async def wait_until_below(self, size_bytes: int) -> None:
        """Return when less than this waits; for what can be put off until there is room."""
        while self.size_bytes >= size_bytes:
            self._taken.clear()
            await self._taken.wait()
