"""The responses of one connection that wait to be sent: bytes in memory, and pieces of log files.

Bytes leave together; pieces of files go as pieces, which a plain channel sends from the disk's cache.
"""

from collections import deque

from ottla_broker.channel import Channel
from ottla_broker.log.segments.log_slice import FileSlice
from ottla_broker.outcome import Parts
from ottla_broker.request_times import MeasuredRequest

SENT_AT_ONCE_BYTES_MAX = 4 * 1024 * 1024
"""How much one connection sends before the others have their turn."""
GATHERED_PARTS_MAX = 64


class UnsentResponses:
    """What a connection's channel has not taken yet, in order.

    Attributes:
        parts: of the responses.
        size_bytes: what of them is in memory and not in files.
        sent_bytes: what the channel took since the connection was accepted.
    """

    __slots__ = ("_channel", "_measured", "parts", "sent_bytes", "size_bytes")

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.parts: deque[memoryview | FileSlice] = deque()
        self.size_bytes = 0
        self.sent_bytes = 0
        self._measured: deque[tuple[MeasuredRequest, int]] = deque()

    def measure(self, measured: MeasuredRequest) -> None:
        """Have a request told when everything is sent that was added so far."""
        measured.note_queued()
        unsent_bytes = sum(part.size if isinstance(part, FileSlice) else len(part) for part in self.parts)
        if unsent_bytes:
            self._measured.append((measured, self.sent_bytes + unsent_bytes))
        else:
            measured.note_sent()

    def add(self, parts: Parts) -> None:
        """Send these parts after the others."""
        for part in parts:
            if isinstance(part, FileSlice):
                self.parts.append(part)
            else:
                data = part if isinstance(part, bytes) else part.read()
                assert data, "an empty part would never be sent"
                self.parts.append(memoryview(data))
                self.size_bytes += len(data)

    def clear(self) -> None:
        """Forget what is unsent."""
        self.parts.clear()
        self._measured.clear()
        self.size_bytes = 0

    def send(self) -> None:
        """Send until everything is gone, the channel takes no more, or it is other connections' turn.

        Raises:
            OSError: the peer has gone, or a file does not hold any more what was read there.
        """
        budget = SENT_AT_ONCE_BYTES_MAX
        try:
            while self.parts and budget > 0:
                sent = self._send_next()
                budget -= sent
                self.sent_bytes += sent
        except (BlockingIOError, InterruptedError):
            pass
        measured = self._measured
        while measured and measured[0][1] <= self.sent_bytes:
            measured.popleft()[0].note_sent()

    def _send_next(self) -> int:
        """Send from the head of the queue; return how many bytes the channel took."""
        head = self.parts[0]
        if isinstance(head, FileSlice):
            return self._send_slice(head)
        if len(self.parts) == 1:
            sent = self._channel.send(head)
            self.size_bytes -= sent
            if sent < len(head):
                self.parts[0] = head[sent:]
            else:
                self.parts.clear()
            return sent
        return self._send_gathered()

    def _send_gathered(self) -> int:
        buffers: list[memoryview] = []
        for part in self.parts:
            if isinstance(part, FileSlice) or len(buffers) == GATHERED_PARTS_MAX:
                break
            buffers.append(part)
        sent = self._channel.send_gathered(buffers, more=len(buffers) < len(self.parts))
        self.size_bytes -= sent
        left = sent
        while left:
            part = self.parts.popleft()
            assert isinstance(part, memoryview)
            if left < len(part):
                self.parts.appendleft(part[left:])
                break
            left -= len(part)
        return sent

    def _send_slice(self, piece: FileSlice) -> int:
        if piece.is_lost:
            raise OSError(f"{piece.file} was truncated before all that was read there could be sent")
        try:
            sent = self._channel.send_slice(piece)
        except (BlockingIOError, InterruptedError, ConnectionError, TimeoutError):
            raise  # these are the peer's, so the disk need not be asked
        except OSError:
            piece.look_for_fault()
            raise
        if sent == 0:
            raise OSError(f"{piece.file} is shorter than its index says")
        self.parts.popleft()
        if sent < piece.size:
            self.parts.appendleft(piece.after(sent))
        return sent
