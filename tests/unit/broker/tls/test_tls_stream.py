"""TLS whose bytes OpenSSL gets from memory, against OpenSSL on a socket of its own."""

import random
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from ottla_broker.tls.tls_stream import RECORD_BYTES_MAX, SENT_AT_ONCE_BYTES_MAX, TlsStream, receive_buffer
from tests.support.eventually import eventually
from tests.support.servers.certificates import Certificates

TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls") / "certificates")


class Pair:
    """A stream, and the peer: OpenSSL on a socket that blocks, driven in a thread."""

    def __init__(self, certificates: Certificates) -> None:
        self.of_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.of_server.load_cert_chain(certificates.path("server.pem"), certificates.path("server.key"))
        self.of_client = ssl.create_default_context(cafile=str(certificates.path("ca.pem")))
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self.theirs.settimeout(TIMEOUT_S)
        self.threads = ThreadPoolExecutor(1)
        self.begin()

    def begin(self) -> None:
        """Make the stream, which goes by what its context says now."""
        self.stream = TlsStream(self.of_server, self.ours, receive_buffer(), server_side=True)

    def connect(self) -> ssl.SSLSocket:
        """Have both shake hands, and return the peer's end."""
        connecting = self.threads.submit(self.of_client.wrap_socket, self.theirs, server_hostname="127.0.0.1")
        shake_hands(self.stream)
        return connecting.result(TIMEOUT_S)

    def close(self) -> None:
        self.stream.close()
        self.theirs.close()
        self.threads.shutdown()


@pytest.fixture
def pair(certificates: Certificates) -> Iterator[Pair]:
    made = Pair(certificates)
    yield made
    made.close()


class RecordMaker:
    """A peer whose records are had as bytes before they are sent; its handshake is done."""

    def __init__(self, pair: Pair) -> None:
        incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = pair.of_client.wrap_bio(incoming, self._outgoing, server_hostname="127.0.0.1")
        for _ in range(2):
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                pair.theirs.sendall(self._outgoing.read())
                try:
                    pair.stream.do_handshake()
                except ssl.SSLWantReadError:
                    incoming.write(pair.theirs.recv(RECORD_BYTES_MAX))
        pair.theirs.sendall(self._outgoing.read())
        pair.stream.do_handshake()

    def record(self, data: bytes) -> bytes:
        """Return a record with this in it."""
        self._tls.write(data)
        return self._outgoing.read()


def shake_hands(stream: TlsStream) -> None:
    def is_done() -> bool:
        try:
            stream.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        return True

    eventually(is_done, "the handshake is done", within_s=TIMEOUT_S)


def has_more(stream: TlsStream) -> bool:
    return stream.has_received


def receive(stream: TlsStream, target: memoryview) -> int:
    """Receive something, as soon as there is something."""
    counts: list[int] = []

    def has_received() -> bool:
        try:
            counts.append(stream.receive_into(target))
        except BlockingIOError:
            return False
        return True

    eventually(has_received, "something is received", within_s=TIMEOUT_S)
    return counts[0]


def test_what_a_peer_sends_in_records_of_any_size_arrives_in_pieces_of_any_size(pair: Pair) -> None:
    peer, seed = pair.connect(), random.randrange(2**32)
    chance, sent = random.Random(seed), bytearray()

    def send() -> None:
        while len(sent) < 2_000_000:
            record = chance.randbytes(chance.choice((1, 5, 100, 2_400, 16_384, 60_000)))
            sent.extend(record)
            peer.sendall(record)

    sending = pair.threads.submit(send)
    sizes, received = random.Random(seed + 1), bytearray()
    while len(received) < 2_000_000:
        target = memoryview(bytearray(sizes.choice((1, 7, 4_096, 100_000, 1_000_000))))
        received += target[: receive(pair.stream, target)]
    sending.result(TIMEOUT_S)
    while len(received) < len(sent):
        target = memoryview(bytearray(len(sent)))
        received += target[: receive(pair.stream, target)]
    assert received == sent, f"seed {seed}"


def test_it_tells_that_it_has_what_the_socket_does_not_tell_of(pair: Pair) -> None:
    peer = pair.connect()
    peer.sendall(bytes(1_000))
    assert receive(pair.stream, memoryview(bytearray(10))) == 10
    assert has_more(pair.stream)
    assert pair.stream.receive_into(memoryview(bytearray(5_000))) == 990
    assert not has_more(pair.stream)
    with pytest.raises(BlockingIOError):
        pair.stream.receive_into(memoryview(bytearray(5_000)))


def test_half_a_record_is_no_reason_to_look_again(pair: Pair) -> None:
    """Or the event loop would turn without end until the other half arrives."""
    peer = RecordMaker(pair)
    record = peer.record(b"in two halves")
    target = memoryview(bytearray(RECORD_BYTES_MAX))
    pair.theirs.sendall(record[:9])
    with pytest.raises(BlockingIOError):
        pair.stream.receive_into(target)
    assert not pair.stream.has_received
    pair.theirs.sendall(record[9:])
    assert bytes(target[: pair.stream.receive_into(target)]) == b"in two halves"


def test_what_came_with_the_end_of_the_handshake_is_not_forgotten(certificates: Certificates) -> None:
    pair = Pair(certificates)
    try:

        def connect_and_ask() -> ssl.SSLSocket:
            peer = pair.of_client.wrap_socket(pair.theirs, server_hostname="127.0.0.1")
            peer.sendall(b"a question")
            return peer

        asking: Future[ssl.SSLSocket] = pair.threads.submit(connect_and_ask)
        shake_hands(pair.stream)
        asking.result(TIMEOUT_S)
        target = memoryview(bytearray(100))
        assert bytes(target[: receive(pair.stream, target)]) == b"a question"
    finally:
        pair.close()


@pytest.mark.parametrize("size_bytes", [1, 1_000, SENT_AT_ONCE_BYTES_MAX, 3_000_000])
def test_what_a_slow_reader_does_not_take_is_sent_later_and_once(pair: Pair, size_bytes: int) -> None:
    peer = pair.connect()
    total_bytes = 3_000_000 if size_bytes > 1 else 30_000
    data = memoryview(random.Random(size_bytes).randbytes(total_bytes))
    sent = 0
    while sent < len(data):  # until the socket takes no more
        try:
            sent += pair.stream.send(data[sent : sent + size_bytes])
        except BlockingIOError:
            break
    assert 0 < sent < len(data)
    with pytest.raises(BlockingIOError):
        pair.stream.send(data[sent : sent + size_bytes])

    def read() -> bytes:
        taken = bytearray()
        while len(taken) < len(data):
            taken += peer.recv(1_000_000)
        return bytes(taken)

    reading = pair.threads.submit(read)
    offered = sent

    def is_sent() -> bool:
        nonlocal offered
        try:
            while offered < len(data):
                offered += pair.stream.send(data[offered : offered + size_bytes])
        except BlockingIOError:
            return False
        return True

    eventually(is_sent, "all is sent", within_s=TIMEOUT_S)
    assert reading.result(TIMEOUT_S) == data


def test_the_end_of_the_peer_is_told_by_0_whether_it_says_so_or_goes(certificates: Certificates) -> None:
    for says_so in (True, False):
        pair = Pair(certificates)
        try:
            peer = pair.connect()
            peer.sendall(b"the last word")
            if says_so:
                closing = pair.threads.submit(peer.unwrap)  # waits for our answer
            else:
                peer.close()
            target = memoryview(bytearray(RECORD_BYTES_MAX))
            assert receive(pair.stream, target) == len(b"the last word")
            assert receive(pair.stream, target) == 0
            assert receive(pair.stream, target) == 0
            pair.stream.close()
            if says_so:
                closing.exception(TIMEOUT_S)
        finally:
            pair.close()


def test_a_record_that_was_changed_on_the_way_ends_the_connection_behind_what_came_before(pair: Pair) -> None:
    peer = RecordMaker(pair)
    changed = bytearray(peer.record(b"first") + peer.record(b"second"))
    changed[-1] ^= 1
    pair.theirs.sendall(changed)
    small, target = memoryview(bytearray(5)), memoryview(bytearray(RECORD_BYTES_MAX))
    assert bytes(small[: pair.stream.receive_into(small)]) == b"first"
    assert pair.stream.has_received
    with pytest.raises(ssl.SSLError, match=r"BAD_RECORD_MAC|DECRYPTION_FAILED"):
        pair.stream.receive_into(target)
    with pytest.raises(ssl.SSLError):
        pair.stream.receive_into(target)


def test_a_peer_that_speaks_no_tls_is_noticed(pair: Pair) -> None:
    pair.theirs.sendall(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(ssl.SSLError, match="HTTP_REQUEST"):
        shake_hands(pair.stream)


def test_a_peer_whose_handshake_is_refused_is_told_why(pair: Pair) -> None:
    pair.of_client.maximum_version = ssl.TLSVersion.TLSv1_2
    pair.of_server.minimum_version = ssl.TLSVersion.TLSv1_3
    pair.begin()
    connecting = pair.threads.submit(pair.of_client.wrap_socket, pair.theirs, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
        shake_hands(pair.stream)
    with pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
        connecting.result(TIMEOUT_S)


def test_a_peer_that_goes_in_mid_handshake_is_noticed(pair: Pair) -> None:
    pair.theirs.close()
    with pytest.raises(OSError, match=r"EOF|closed|reset"):
        shake_hands(pair.stream)
