"""The channels that encrypt (`channel.py`), on a socket whose handshake is done; and which of both it is.

Where the kernel can encrypt (kTLS), OpenSSL is given the socket, and pieces of log files leave by `sendfile` as on a
plain channel. Otherwise OpenSSL works in memory (`tls_stream.py`), and pieces of files are read before.
"""

import functools
import os
import socket
import ssl
from collections.abc import Sequence
from typing import Final

from ottla_broker.channel import Buffer, Channel
from ottla_broker.log.segments.log_slice import FileSlice
from ottla_broker.tls.tls_stream import SENT_AT_ONCE_BYTES_MAX, TlsStream

SLICE_BYTES_MAX: Final = 128 * 1024
GATHERED_BYTES_MAX: Final = 128 * 1024
_SOL_TLS: Final = 282
_TLS_TX: Final = 1
_CRYPTO_INFO_BYTES: Final = 64
_TCP_ULP: Final = 31

TlsSocket = TlsStream | ssl.SSLSocket
"""A connection whose handshake is to be done, or is done."""


def secured(
    context: ssl.SSLContext,
    sock: socket.socket,
    buffer: memoryview,
    *,
    server_side: bool,
    server_hostname: str | None = None,
) -> TlsSocket:
    """Return TLS over a connected socket, which does not block.

    Args:
        context: of the listener.
        sock: it belongs to what is returned.
        buffer: see `TlsStream`.
        server_side: whether the peer has connected to us.
        server_hostname: to whom we have connected.

    Raises:
        OSError: the peer has gone.
    """
    if kernel_can_encrypt():
        return context.wrap_socket(
            sock, server_side=server_side, server_hostname=server_hostname, do_handshake_on_connect=False
        )
    return TlsStream(context, sock, buffer, server_side=server_side, server_hostname=server_hostname)


def channel_of(secured_socket: TlsSocket) -> Channel:
    """Return the channel over TLS whose handshake is done."""
    if isinstance(secured_socket, TlsStream):
        return TlsChannel(secured_socket)
    return SocketTlsChannel(secured_socket)


class TlsChannel:
    """An encrypted connection whose bytes OpenSSL gets from memory.

    Args:
        stream: with the handshake done; it is the channel's from here on.
    """

    __slots__ = ("_stream", "close", "fileno", "receive_into", "receives_ahead", "send", "usable_for_s")

    def __init__(self, stream: TlsStream) -> None:
        self._stream = stream
        self.receives_ahead = True
        self.usable_for_s: float | None = None
        # The stream's own methods, as with a plain channel.
        self.fileno = stream.fileno
        self.receive_into = stream.receive_into
        self.send = stream.send
        self.close = stream.close

    @property
    def has_received(self) -> bool:
        """Whether bytes can be received of which the event loop does not know."""
        return self._stream.has_received

    def send_gathered(self, buffers: Sequence[Buffer], *, more: bool) -> int:
        """Encrypt and send a beginning of the buffers, joined, as each record costs."""
        del more
        return self.send(_joined(buffers, SENT_AT_ONCE_BYTES_MAX))

    def send_slice(self, piece: FileSlice) -> int:
        """Encrypt and send a beginning of a piece of a log file."""
        data = os.pread(piece.file.fileno(), min(piece.size, SENT_AT_ONCE_BYTES_MAX), piece.position)
        return self.send(data) if data else 0


class SocketTlsChannel:
    """An encrypted TCP connection that OpenSSL reads and writes itself.

    The event loop goes on watching its socket. OpenSSL may have decrypted more than was asked for, of which the event
    loop knows nothing: `has_received`. What it has encrypted and the socket did not take has to be offered again,
    with nothing before it and no less of it; the queue of a connection does just that.

    Args:
        sock: with the handshake done; it is the channel's from here on.

    Attributes:
        kernel_encrypts: whether the kernel encrypts what is sent.
    """

    __slots__ = ("_socket", "fileno", "kernel_encrypts", "receives_ahead", "usable_for_s")

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._socket = sock
        self.receives_ahead = True
        self.usable_for_s: float | None = None
        self.fileno = sock.fileno
        self.kernel_encrypts = kernel_encrypts(sock)

    @property
    def has_received(self) -> bool:
        """Whether bytes can be received of which the event loop does not know."""
        return self._socket.pending() > 0

    def receive_into(self, target: memoryview) -> int:
        """Decrypt into `target`, as many records as have arrived and fit."""
        received = 0
        while received < len(target):
            try:
                count = self._socket.recv_into(target[received:])
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except OSError:
                if received:  # the next call meets it again
                    break
                raise
            if count == 0:
                return received
            received += count
        if not received:
            raise BlockingIOError
        return received

    def send(self, data: Buffer) -> int:
        """Encrypt and send a beginning."""
        try:
            return self._socket.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def send_gathered(self, buffers: Sequence[Buffer], *, more: bool) -> int:
        """Encrypt and send a beginning of the buffers, joined, as each record costs."""
        del more
        return self.send(_joined(buffers, GATHERED_BYTES_MAX))

    def send_slice(self, piece: FileSlice) -> int:
        """Encrypt and send a beginning of a piece of a log file."""
        if self.kernel_encrypts:
            return os.sendfile(self._socket.fileno(), piece.file.fileno(), piece.position, piece.size)
        data = os.pread(piece.file.fileno(), min(piece.size, SLICE_BYTES_MAX), piece.position)
        return self.send(data) if data else 0

    def close(self) -> None:
        """Close the socket; a peer that waits learns so from TCP."""
        self._socket.close()


def _joined(buffers: Sequence[Buffer], bytes_max: int) -> Buffer:
    """Return the first buffers as one: of no more bytes than the limit, but one at least."""
    size, count = 0, 0
    for buffer in buffers:
        if count and size + len(buffer) > bytes_max:
            break
        size += len(buffer)
        count += 1
    return b"".join(buffers[:count]) if count > 1 else buffers[0]


def kernel_encrypts(sock: ssl.SSLSocket) -> bool:
    """Return whether the kernel encrypts what this socket sends."""
    try:
        return bool(sock.getsockopt(_SOL_TLS, _TLS_TX, _CRYPTO_INFO_BYTES))
    except OSError:
        return False


@functools.cache
def kernel_can_encrypt() -> bool:
    """Return whether the kernel has TLS at all (module ``tls``); each connection asks for itself what it uses."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening, socket.socket() as client:
        try:
            listening.bind(("127.0.0.1", 0))
            listening.listen(1)
            client.connect(listening.getsockname())
            client.setsockopt(socket.IPPROTO_TCP, _TCP_ULP, b"tls")
        except OSError:
            return False
    return True
