"""The channel under a connection: how its bytes come from the peer and go to it.

`PlainChannel` is the socket itself, from which pieces of log files leave by `sendfile`. A channel that encrypts has
the same operations, so a connection does not know what is beneath it. All operations return at once.
"""

import os
import socket
from collections.abc import Sequence
from typing import Protocol

from ottla_broker.log.segments.log_slice import FileSlice

Buffer = bytes | bytearray | memoryview


class Channel(Protocol):
    """Bytes from and to one peer, without waiting.

    Every operation raises BlockingIOError or InterruptedError where nothing can be done at the moment, and OSError
    where the peer has gone.

    Attributes:
        receives_ahead: whether it may have received bytes of which the event loop, which watches the descriptor, does
            not know; `has_received` tells.
        usable_for_s: for how long after its login the peer takes requests (KIP-368); None: for ever.
    """

    receives_ahead: bool
    usable_for_s: float | None

    @property
    def has_received(self) -> bool:
        """Whether `receive_into` has something to give whatever the event loop says."""

    def fileno(self) -> int:
        """Return the descriptor that the event loop watches."""

    def receive_into(self, target: memoryview) -> int:
        """Put bytes that have arrived into `target`; return how many, 0 where the peer has ended the connection."""

    def send(self, data: Buffer) -> int:
        """Take a beginning of `data`; return how many bytes."""

    def send_gathered(self, buffers: Sequence[Buffer], *, more: bool) -> int:
        """Take a beginning of the buffers together; return how many bytes.

        Args:
            buffers: in order.
            more: whether other bytes follow at once, for which a packet may wait.
        """

    def send_slice(self, piece: FileSlice) -> int:
        """Take a beginning of a piece of a log file; return how many bytes, 0 where the file has none of it."""

    def close(self) -> None:
        """Close the connection to the peer."""


class PlainChannel:
    """A TCP socket that does not block.

    Args:
        sock: it is the channel's from here on.
    """

    __slots__ = ("_socket", "fileno", "receive_into", "receives_ahead", "send", "usable_for_s")
    has_received = False

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.receives_ahead = False
        self.usable_for_s: float | None = None
        # The socket's own methods: a function of ours around them would cost a call for each request.
        self.fileno = sock.fileno
        self.receive_into = sock.recv_into
        self.send = sock.send

    def send_gathered(self, buffers: Sequence[Buffer], *, more: bool) -> int:
        """Take a beginning of the buffers together."""
        return self._socket.sendmsg(buffers, (), socket.MSG_MORE if more else 0)

    def send_slice(self, piece: FileSlice) -> int:
        """Have the kernel send from the file."""
        return os.sendfile(self._socket.fileno(), piece.file.fileno(), piece.position, piece.size)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
