"""Messages out of a stream of bytes: four bytes of length before each. Pure."""

from collections.abc import Iterator

from ottla_connect.processes.messages import LENGTH_PREFIX_SIZE, MESSAGE_BYTES_MAX


class FrameTooLong(Exception):
    """A length says more than any message has."""


class FrameReader:
    """Collects bytes until they are whole messages."""

    def __init__(self, bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._received = bytearray()

    def feed(self, received: bytes) -> Iterator[bytes]:
        """Take bytes, and return the texts of the messages that are whole now.

        Raises:
            FrameTooLong: this is no stream of messages, or of one that is too long.
        """
        self._received += received
        while len(self._received) >= LENGTH_PREFIX_SIZE:
            length = int.from_bytes(self._received[:LENGTH_PREFIX_SIZE], "big")
            if length > self._bytes_max:
                raise FrameTooLong(f"a message of {length} bytes, more than {self._bytes_max}")
            end = LENGTH_PREFIX_SIZE + length
            if len(self._received) < end:
                return
            text = bytes(self._received[LENGTH_PREFIX_SIZE:end])
            del self._received[:end]
            yield text
