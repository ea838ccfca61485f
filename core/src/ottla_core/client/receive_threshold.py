"""How much of a large answer has to have arrived before the event loop is woken.

A broker sends an answer of a megabyte piece by piece, and a receiver that is faster would be woken for each: a turn
of the event loop, two system calls and a callback, for what is of no use before the rest is there. The kernel wakes
nobody before `SO_RCVLOWAT` bytes can be read, or the receive window is full, or the connection ends (socket(7)).

It must never ask for more than is bound to come, or the end of an answer would be waited for until a deadline.
"""

import socket
from typing import Final

THRESHOLD_BYTES_MAX: Final = 256 * 1024
"""The receive window grows to twice as much, so that the broker sends while this much is read."""
ANY_BYTES: Final = 1


class ReceiveThreshold:
    """The threshold of one connection's socket.

    Args:
        sock: a duplicate of the connection's socket, which is closed with this object.
    """

    __slots__ = ("_bytes", "_sock")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._bytes = ANY_BYTES

    def expect(self, missing_bytes: int) -> None:
        """Be woken when what is missing of an answer is there, or a good part of it.

        Args:
            missing_bytes: so many are bound to come; with 0 nothing is known of what comes next.
        """
        wanted = min(missing_bytes, THRESHOLD_BYTES_MAX) or ANY_BYTES
        if wanted != self._bytes:
            self._bytes = wanted
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)

    def close(self) -> None:
        """Close the duplicate."""
        self._sock.close()
