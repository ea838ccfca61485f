"""Whether a Kafka broker answers at an address, asked with plain sockets before librdkafka is.

librdkafka keeps trying in silence, whatever listens there. Here the first answer to an ApiVersions request, or what
other protocols' first words bring about, tells what it is: a broker, an HTTP server, a port with or without TLS, or
nothing that speaks. All addresses are asked at a time, each in a thread, since a name's address cannot be looked up
with a deadline; Ctrl-C ends the wait at once.
"""

import queue
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

PROBE_WITHIN_S = 3.0
"""With the start of the command, which takes longer on a busy machine, a person waits five seconds at most."""
SILENCE_S = 1.0
"""So long after the first question other protocols are tried, too, while an answer may still come."""
OTHER_PROTOCOL_S = 1.0
SLACK_S = 0.5
"""What threads may take to tell of the deadline."""

CORRELATION_ID = 1
CLIENT_ID = b"ottla"
API_VERSIONS_REQUEST = b"".join(
    (
        (10 + len(CLIENT_ID)).to_bytes(4, "big"),
        (18).to_bytes(2, "big"),  # ApiVersions
        (0).to_bytes(2, "big"),
        CORRELATION_ID.to_bytes(4, "big"),
        len(CLIENT_ID).to_bytes(2, "big"),
        CLIENT_ID,
    )
)
ANSWER_HEAD_BYTES = 8
HTTP_REQUEST = b"GET / HTTP/1.0\r\n\r\n"
TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
"""How an alert and a handshake begin."""

AN_HTTP_SERVER = "an HTTP server answers there, no Kafka broker"
WANTS_TLS = "it wants TLS: add --property security.protocol=ssl"
NO_TLS = "it speaks no TLS: leave out security.protocol=ssl"
NO_KAFKA = "what answers there does not speak Kafka's protocol"
CLOSES = "it closes connections without a word, so it is no Kafka broker, or one that wants TLS"
SAYS_NOTHING = f"it accepts connections, but did not answer within {PROBE_WITHIN_S:.0f} s"
NO_CONNECTION = f"it accepted no connection within {PROBE_WITHIN_S:.0f} s"

Address = tuple[str, int]


def problems_of(addresses: Sequence[Address], *, with_tls: bool) -> list[str] | None:
    """Ask all addresses whether a broker is there; None as soon as one of them is.

    Args:
        addresses: hosts and ports.
        with_tls: whether the client is set to use TLS.

    Returns:
        What is wrong with each, in their order.
    """
    deadline = time.monotonic() + PROBE_WITHIN_S
    answers: queue.SimpleQueue[tuple[int, str | None]] = queue.SimpleQueue()

    def ask(number: int, address: Address) -> None:
        answers.put((number, _problem(address, deadline, with_tls=with_tls)))

    for number, address in enumerate(addresses):
        threading.Thread(target=ask, args=(number, address), daemon=True).start()
    found: dict[int, str] = {}
    while len(found) < len(addresses):
        try:
            number, problem = answers.get(timeout=max(0.0, deadline - time.monotonic()) + SLACK_S)
        except queue.Empty:
            break  # looking up a name takes longer
        if problem is None:
            return None
        found[number] = problem
    return [found.get(number, NO_CONNECTION) for number in range(len(addresses))]


def problem_of_answer(head: bytes) -> str | None:
    """Return what is wrong with the first bytes that answer an ApiVersions request; None if a broker sent them."""
    if head.startswith(b"HTTP"):
        return AN_HTTP_SERVER
    if head.startswith(TLS_RECORDS):
        return WANTS_TLS
    if len(head) == ANSWER_HEAD_BYTES and head[4:] == CORRELATION_ID.to_bytes(4, "big"):
        return None
    return NO_KAFKA if head else CLOSES


def _problem(address: Address, deadline: float, *, with_tls: bool) -> str | None:
    try:
        with _connected(address, deadline) as connection:
            if with_tls:
                return _problem_of_tls(connection, address, deadline)
            return _problem_of_plain(connection, address, deadline)
    except (socket.gaierror, UnicodeError):  # the latter of what can be no name
        return f"no address is known for the name {address[0]}"
    except TimeoutError:
        return NO_CONNECTION
    except OSError as error:
        return error.strerror or str(error)


def _problem_of_plain(connection: socket.socket, address: Address, deadline: float) -> str | None:
    connection.sendall(API_VERSIONS_REQUEST)
    head = _head(connection, min(SILENCE_S, _left(deadline)))
    if head:
        return problem_of_answer(head)
    with suppress(OSError):  # what a slow broker does with other words says nothing about it
        if (other := _other_protocol(address, deadline)) is not None:
            return other
    if head is None:  # it may be a broker that is slow
        head = _head(connection, _left(deadline))
    return SAYS_NOTHING if head is None else problem_of_answer(head)


def _problem_of_tls(connection: socket.socket, address: Address, deadline: float) -> str | None:
    if _does_tls(connection, address[0], min(SILENCE_S + OTHER_PROTOCOL_S, _left(deadline))):
        return None  # whether the certificates are right is for librdkafka to say
    with _connected(address, deadline) as plain:
        plain.sendall(API_VERSIONS_REQUEST)
        head = _head(plain, min(OTHER_PROTOCOL_S, _left(deadline)))
    if head is None:
        return SAYS_NOTHING
    found = problem_of_answer(head)
    return NO_TLS if found is None else found


def _other_protocol(address: Address, deadline: float) -> str | None:
    with _connected(address, deadline) as connection:
        connection.sendall(HTTP_REQUEST)
        if (_head(connection, min(OTHER_PROTOCOL_S, _left(deadline))) or b"").startswith(b"HTTP"):
            return AN_HTTP_SERVER
    with _connected(address, deadline) as connection:
        return WANTS_TLS if _does_tls(connection, address[0], min(OTHER_PROTOCOL_S, _left(deadline))) else None


def _does_tls(connection: socket.socket, host: str, within_s: float) -> bool:
    import ssl  # noqa: PLC0415 - takes as long as everything else here

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent; this only asks what is there
    connection.settimeout(within_s)
    try:
        # With the name, by which a proxy that serves several clusters chooses one.
        context.wrap_socket(connection, server_hostname=host.rstrip(".")).close()
    except ssl.SSLError as error:
        return (error.reason or "").startswith(("SSLV3_ALERT", "TLSV1", "TLSV13"))
    except OSError:
        return False
    return True


def _connected(address: Address, deadline: float) -> socket.socket:
    """Connect to the first of a name's addresses that takes it; one that is silent leaves time for the others."""
    found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
    problem: OSError | None = None
    for number, (_, _, _, _, target) in enumerate(found):
        try:
            share_s = _left(deadline) / (len(found) - number)
            return socket.create_connection((str(target[0]), int(target[1])), timeout=share_s)
        except OSError as error:
            problem = error
    raise problem or TimeoutError


def _head(connection: socket.socket, within_s: float) -> bytes | None:
    """Return the first bytes of an answer: fewer if the connection is closed then, None if nothing comes."""
    received = b""
    connection.settimeout(within_s)
    try:
        while len(received) < ANSWER_HEAD_BYTES and (piece := connection.recv(ANSWER_HEAD_BYTES - len(received))):
            received += piece
    except TimeoutError:
        return received or None
    except OSError:
        pass  # a reset says no more than an end
    return received


def _left(deadline: float) -> float:
    return max(0.05, deadline - time.monotonic())
