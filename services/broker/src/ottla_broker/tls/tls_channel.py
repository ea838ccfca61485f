"""A channel that encrypts (`channel.py`), on a socket whose handshake is done.

OpenSSL reads and writes the socket itself, so the event loop goes on watching that. It may have decrypted more than
was asked for, of which the event loop knows nothing: `has_received`. What it has encrypted and the socket did not
take has to be offered again, with nothing before it and no less of it; the queue of a connection does just that.

Where the kernel encrypts (kTLS), pieces of log files leave by `sendfile` as on a plain channel; otherwise they are
read into memory, at most `SLICE_BYTES_MAX` at a time.
"""

import os
import socket
import ssl
from collections.abc import Sequence
from typing import Final

from ottla_broker.channel import Buffer
from ottla_broker.log.segments.log_slice import FileSlice

SLICE_BYTES_MAX: Final = 128 * 1024
GATHERED_BYTES_MAX: Final = 128 * 1024
_SOL_TLS: Final = 282
_TLS_TX: Final = 1
_CRYPTO_INFO_BYTES: Final = 64
_TCP_ULP: Final = 31


class TlsChannel:
    """An encrypted TCP connection that does not block.

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
        size, count = 0, 0
        for buffer in buffers:
            if count and size + len(buffer) > GATHERED_BYTES_MAX:
                break
            size += len(buffer)
            count += 1
        return self.send(b"".join(buffers[:count]) if count > 1 else buffers[0])

    def send_slice(self, piece: FileSlice) -> int:
        """Encrypt and send a beginning of a piece of a log file."""
        if self.kernel_encrypts:
            return os.sendfile(self._socket.fileno(), piece.file.fileno(), piece.position, piece.size)
        data = os.pread(piece.file.fileno(), min(piece.size, SLICE_BYTES_MAX), piece.position)
        return self.send(data) if data else 0

    def close(self) -> None:
        """Close the socket; a peer that waits learns so from TCP."""
        self._socket.close()


def kernel_encrypts(sock: ssl.SSLSocket) -> bool:
    """Return whether the kernel encrypts what this socket sends."""
    try:
        return bool(sock.getsockopt(_SOL_TLS, _TLS_TX, _CRYPTO_INFO_BYTES))
    except OSError:
        return False


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
