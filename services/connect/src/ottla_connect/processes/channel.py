"""The worker's end of the socket to a process: messages both ways, without ever waiting.

Not an asyncio transport, because a failed write must not lose what the process said before it ended.
"""

import asyncio
import socket
from collections.abc import Callable

import msgspec

from ottla_connect.processes.frames import FrameReader, FrameTooLong
from ottla_connect.processes.messages import MESSAGE_BYTES_MAX, FromProcess, Message, decode_from_process, encode

READ_SIZE = 64 * 1024
DRAIN_BYTES_MAX = 16 * 1024 * 1024
"""More than a socket's buffer has; so much is read at most of what an ended process has left."""
UNSENT_BYTES_MAX = 2 * MESSAGE_BYTES_MAX
SHOWN_BYTES_MAX = 120


class Channel:
    """Sends and receives messages; reads from `open` on.

    Attributes:
        is_closed: whether the process's end is closed, so that nothing more comes.
        sent_bytes: how much the process's socket has taken.
        unsent_bytes: how much waits for it.
    """

    def __init__(
        self, end: socket.socket, *, on_message: Callable[[FromProcess], None], on_broken: Callable[[str], None]
    ) -> None:
        """Take over the socket.

        Args:
            end: a stream socket.
            on_message: called with every message.
            on_broken: called with what is wrong if the process sends what is no message, or reads none.
        """
        end.setblocking(False)
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._on_message = on_message
        self._on_broken = on_broken
        self._frames = FrameReader()
        self._unsent = bytearray()
        self._takes_messages = True
        self._reads = False
        self.is_closed = False
        self.sent_bytes = 0

    @property
    def unsent_bytes(self) -> int:
        """How many bytes wait for the process to read."""
        return len(self._unsent)

    def open(self) -> None:
        """Begin to read."""
        if not self.is_closed:
            self._loop.add_reader(self._end, self._read)
            self._reads = True

    def send(self, message: Message) -> None:
        """Send a message, now or as soon as the process reads; lost if it has ended."""
        if not self._takes_messages:
            return
        waits = bool(self._unsent)
        self._unsent += encode(message)
        if not waits:
            self._write()
            if self._unsent:
                self._loop.add_writer(self._end, self._write)
        if len(self._unsent) > UNSENT_BYTES_MAX:
            self._stop_writing()
            self._on_broken(f"has left more than {UNSENT_BYTES_MAX} bytes of messages unread")

    def close(self) -> None:
        """Read what the process has left behind, and close the socket."""
        drained = 0
        while not self.is_closed and self._reads and drained < DRAIN_BYTES_MAX and (size := self._read()):
            drained += size
        self._stop_writing()
        self._stop_reading()
        self._end.close()

    def _write(self) -> None:
        try:
            while self._unsent:
                size = self._end.send(self._unsent)
                self.sent_bytes += size
                del self._unsent[:size]
        except BlockingIOError:
            return
        except OSError:
            pass  # it has ended, which its launcher reports
        self._loop.remove_writer(self._end)
        if self._unsent:
            self._stop_writing()

    def _stop_writing(self) -> None:
        self._takes_messages = False
        self._unsent.clear()
        self._loop.remove_writer(self._end)

    def _read(self) -> int:
        """Read once, and hand over what has come; returns how many bytes were read."""
        try:
            received = self._end.recv(READ_SIZE)
        except BlockingIOError:
            return 0
        except OSError:
            received = b""
        if not received:
            self._stop_reading()
            return 0
        try:
            for text in self._frames.feed(received):
                self._on_message(decode_from_process(text))
        except FrameTooLong as error:
            self._break(f"sent what is no message: {error}")
        except msgspec.MsgspecError as error:
            self._break(f"sent what is no message: {error}: {text[:SHOWN_BYTES_MAX]!r}")
        return len(received)

    def _break(self, problem: str) -> None:
        self._stop_reading()
        self._on_broken(problem)

    def _stop_reading(self) -> None:
        self._loop.remove_reader(self._end)
        self.is_closed = True
