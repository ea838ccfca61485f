"""TLS on a socket that does not block, where OpenSSL reads and writes memory and this file the socket.

Left to itself, OpenSSL reads each record of TLS by two system calls, one for its length and one for the rest, and
clients make records of one or two kilobytes. Here the socket is read as far as there is room for it, and OpenSSL
takes the records out of that. It costs a copy, which is cheaper than the calls. Where the kernel encrypts, OpenSSL
has to have the socket: see `SocketTlsChannel`.

Memory: a read is of no more than what its caller has room for, or one record, so a stream keeps less than two records
of what was received, and of what it has encrypted `SENT_AT_ONCE_BYTES_MAX`. What is read from a socket passes through
a buffer that the streams of a listener share, and has left it when the call returns.
"""

import socket
import ssl
from collections.abc import Callable
from typing import Final, cast

from ottla_broker.channel import Buffer

RECEIVED_AT_ONCE_BYTES_MAX: Final = 128 * 1024
RECORD_BYTES_MAX: Final = 17 * 1024
"""More than the largest record has with its head, its padding and its authentication (RFC 8446, 5.2)."""
SENT_AT_ONCE_BYTES_MAX: Final = 64 * 1024
NOTHING: Final = memoryview(b"")


def receive_buffer() -> memoryview:
    """Return memory for what streams of one event loop read from their sockets."""
    return memoryview(bytearray(RECEIVED_AT_ONCE_BYTES_MAX))


class TlsStream:
    """One connection with TLS, whose handshake comes first.

    Args:
        context: of the listener.
        sock: connected and not blocking; it is the stream's from here on.
        buffer: of `receive_buffer`; nobody uses it at the same time.
        server_side: whether the peer has connected to us.
        server_hostname: to whom we have connected, to whom the certificate has to belong.

    Attributes:
        has_received: whether `receive_into` may have something to give of which the socket does not tell.
    """

    __slots__ = (
        "_buffer", "_has_ended", "_incoming", "_outgoing", "_owes_a_byte", "_read", "_socket", "_tls", "_unsent",
        "fileno", "has_received",
    )  # fmt: skip

    def __init__(
        self,
        context: ssl.SSLContext,
        sock: socket.socket,
        buffer: memoryview,
        *,
        server_side: bool,
        server_hostname: str | None = None,
    ) -> None:
        self._socket = sock
        self.fileno = sock.fileno
        self._buffer = buffer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_hostname
        )
        self._read = cast("Callable[[int, memoryview], int]", self._tls.read)  # with a buffer it returns how much
        self._unsent = NOTHING
        self._owes_a_byte = self._has_ended = False
        self.has_received = False

    def do_handshake(self) -> None:
        """Go on with the handshake.

        Raises:
            ssl.SSLWantReadError: the peer has to send something before.
            ssl.SSLWantWriteError: the socket has to take something before.
            OSError: it has failed.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._send_handshake()
                self._receive_handshake()
            except ssl.SSLError:
                self._send_alert()
                raise
            else:
                self._send_handshake()
                self.has_received = self._incoming.pending > 0
                return

    def getpeercert(self, *, binary_form: bool) -> bytes | None:
        """Return the peer's certificate (DER), None if it has shown none."""
        assert binary_form, "the other form lacks what names are made of"
        return self._tls.getpeercert(binary_form=True)

    def receive_into(self, target: memoryview) -> int:
        """Decrypt into `target`, as many records as have arrived and fit; return 0 where the peer has ended.

        Raises:
            BlockingIOError: nothing has arrived, or no whole record.
            OSError: the peer has gone, or what it sends is no TLS.
        """
        size, received = len(target), 0
        has_more, is_dry = self.has_received, False
        try:
            while True:
                if has_more:
                    received = self._decrypt(target, received)
                    if received == size or self._has_ended:
                        return received
                    has_more = False
                if is_dry:
                    break
                wanted = min(max(size - received, RECORD_BYTES_MAX), RECEIVED_AT_ONCE_BYTES_MAX)
                count = self._socket.recv_into(self._buffer[:wanted])
                if not count:
                    return received
                self._incoming.write(self._buffer[:count])
                has_more, is_dry = True, count < wanted  # whatever comes now, the event loop tells of it
        except BlockingIOError:
            pass
        except OSError:
            if not received:  # the next call meets it again
                raise
        if not received:
            raise BlockingIOError
        return received

    def send(self, data: Buffer) -> int:
        """Encrypt and send a beginning of `data`, of one byte or more; return how many bytes.

        While the socket has not taken all that was encrypted, the last byte counts as not sent, so that the caller
        comes again with it, as soon as the socket takes more.

        Raises:
            BlockingIOError: the socket takes nothing more for now.
            OSError: the peer has gone.
        """
        settled = 0
        if self._unsent:
            self._send_encrypted()
            if self._unsent:
                raise BlockingIOError
            if self._owes_a_byte:
                self._owes_a_byte, settled = False, 1
                if len(data) == 1:
                    return 1
        encrypted = self._tls.write(memoryview(data)[settled : settled + SENT_AT_ONCE_BYTES_MAX])
        self._unsent = memoryview(self._outgoing.read())
        self._send_encrypted()
        if not self._unsent:
            return settled + encrypted
        self._owes_a_byte = True
        if settled + encrypted == 1:
            raise BlockingIOError
        return settled + encrypted - 1

    def close(self) -> None:
        """Close the socket; a peer that waits learns so from TCP."""
        self._socket.close()

    def _decrypt(self, target: memoryview, received: int) -> int:
        """Fill `target` from `received` on with what is here; return how far it is filled."""
        read, incoming, size = self._read, self._incoming, len(target)
        self.has_received = True  # whatever happens on the way
        try:
            while received < size:
                space = size - received
                count = read(space, target[received:])  # of one record at most
                if not count:
                    self._has_ended = True  # it has said so, whether the socket has ended or not
                    return received
                received += count
                if not incoming.pending and count < space:
                    self.has_received = False
                    break
        except ssl.SSLWantReadError:  # the rest of a record has not arrived
            self.has_received = False
        return received

    def _receive_handshake(self) -> None:
        try:
            count = self._socket.recv_into(self._buffer[:RECORD_BYTES_MAX])
        except (BlockingIOError, InterruptedError):
            raise ssl.SSLWantReadError from None
        if count:
            self._incoming.write(self._buffer[:count])
        else:
            self._incoming.write_eof()  # which OpenSSL finds out of place

    def _send_handshake(self) -> None:
        self._unsent = memoryview(bytes(self._unsent) + self._outgoing.read())
        self._send_encrypted()
        if self._unsent:
            raise ssl.SSLWantWriteError

    def _send_alert(self) -> None:
        """Tell the peer why its handshake has failed, if that can be done at once."""
        try:
            self._send_handshake()
        except OSError:
            return

    def _send_encrypted(self) -> None:
        """Send what is encrypted, as far as the socket takes it."""
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent)
            except (BlockingIOError, InterruptedError):
                return
            self._unsent = self._unsent[sent:]
