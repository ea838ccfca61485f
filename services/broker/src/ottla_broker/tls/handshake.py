"""The handshake of TLS on a connection that was just accepted, before it is a connection of Kafka's protocol.

A handshake has a limited time, and counts as a connection meanwhile. What a peer does wrong ends it, with a line in
the log that says what, for one peer at a time, and a count by reason.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final

from ottla_broker.tls.tls_channel import TlsSocket

HANDSHAKE_SECONDS_MAX: Final = 10.0
"""How long a peer may take; slow ones would hold a place among the connections."""

OnDone = Callable[[TlsSocket], None]
OnFailed = Callable[[str], None]


class Handshake:
    """One handshake; begins at once, and calls one of its callbacks.

    Args:
        sock: just accepted, and not blocking; it is the handshake's until it is done.
        loop: the event loop.
        on_done: given the socket.
        on_failed: given what went wrong; the socket is closed.

    Attributes:
        began_s: when it began, by the event loop's clock.
    """

    def __init__(
        self,
        sock: TlsSocket,
        loop: asyncio.AbstractEventLoop,
        on_done: OnDone,
        on_failed: OnFailed,
    ) -> None:
        self._socket = sock
        self._fd = sock.fileno()
        self._loop = loop
        self.began_s = loop.time()
        self._on_done = on_done
        self._on_failed = on_failed
        self._deadline = loop.call_later(HANDSHAKE_SECONDS_MAX, self.fail, "it takes too long")
        self._is_reading = self._is_writing = False
        self._watch(reading=True, writing=False)

    def fail(self, reason: str) -> None:
        """Give it up."""
        self._end()
        self._socket.close()
        self._on_failed(reason)

    def abandon(self) -> None:
        """Give it up without telling anybody."""
        self._end()
        self._socket.close()

    def _proceed(self) -> None:
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            self._watch(reading=True, writing=False)
        except ssl.SSLWantWriteError:
            self._watch(reading=False, writing=True)
        except OSError as error:  # ssl.SSLError is one
            self.fail(why_failed(error))
        else:
            self._end()
            self._on_done(self._socket)

    def _watch(self, *, reading: bool, writing: bool) -> None:
        if reading != self._is_reading:
            self._is_reading = reading
            if reading:
                self._loop.add_reader(self._fd, self._proceed)
            else:
                self._loop.remove_reader(self._fd)
        if writing != self._is_writing:
            self._is_writing = writing
            if writing:
                self._loop.add_writer(self._fd, self._proceed)
            else:
                self._loop.remove_writer(self._fd)

    def _end(self) -> None:
        self._deadline.cancel()
        self._watch(reading=False, writing=False)


_REASONS: Final = {
    "HTTP_REQUEST": "the client speaks HTTP",
    "WRONG_VERSION_NUMBER": "the client does not speak TLS; its security.protocol may be PLAINTEXT",
    "UNSUPPORTED_PROTOCOL": "the client speaks only older versions of TLS",
    "NO_SHARED_CIPHER": "the client has no cipher suite in common",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has no certificate, which ssl.client.auth=required asks for",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not know the authority of the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client finds that the broker's certificate has expired",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept the broker's certificate",
}


def why_failed(error: OSError, *, of_client: bool = True) -> str:
    """Return what went wrong in a handshake, for people.

    Args:
        error: what it ended with.
        of_client: the peer is a client; otherwise it is a broker that we connect to.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the {'client' if of_client else 'broker'}'s certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError) or not isinstance(error, ssl.SSLError):
        return f"the {'client' if of_client else 'broker'} has gone"
    reason = error.reason or ""
    told = _REASONS.get(reason) if of_client else None
    return told or reason.replace("_", " ").lower() or "TLS failed"
