"""The process's end of the stream between it and its worker."""

import select
import socket
import threading
from collections import deque

from ottla_connect.processes.frames import FrameReader
from ottla_connect.processes.messages import Message, ToProcess, decode_to_process, encode

READ_SIZE_BYTES = 64 * 1024


class ChannelClosed(Exception):
    """The worker has gone."""


class Channel:
    """Sends and receives messages. Any thread may send; one receives."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._frames = FrameReader()
        self._received: deque[ToProcess] = deque()
        self._sending = threading.Lock()

    def send(self, message: Message) -> None:
        """Send a message; waits while the worker is slow to read.

        Raises:
            ChannelClosed: the worker has gone.
        """
        text = encode(message)
        try:
            with self._sending:
                self._connection.sendall(text)
        except OSError as error:
            raise ChannelClosed(str(error)) from error

    def receive(self, timeout_s: float | None = None) -> ToProcess | None:
        """Return the next message, None if there is none in time.

        Raises:
            ChannelClosed: the worker has gone.
        """
        while not self._received:
            try:
                if timeout_s is not None and not select.select([self._connection], (), (), timeout_s)[0]:
                    return None
                data = self._connection.recv(READ_SIZE_BYTES)
            except OSError as error:
                raise ChannelClosed(str(error)) from error
            if not data:
                raise ChannelClosed("the worker has closed the connection")
            self._received.extend(map(decode_to_process, self._frames.feed(data)))
        return self._received.popleft()
