"""Both channels that encrypt: what they are given arrives, in order and once, however slowly it is read."""

import random
import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ottla_broker.channel import Channel
from ottla_broker.log.segments.log_slice import FileSlice
from ottla_broker.log.segments.segment_file import SegmentFile
from ottla_broker.tls import tls_channel
from ottla_broker.tls.tls_channel import SocketTlsChannel, TlsChannel, channel_of, secured
from ottla_broker.tls.tls_stream import receive_buffer
from ottla_broker.unsent_responses import UnsentResponses
from tests.support.eventually import eventually
from tests.support.servers.certificates import Certificates

TIMEOUT_S = 20.0
FILE_BYTES = 700_000


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls") / "certificates")


@pytest.fixture(params=[TlsChannel, SocketTlsChannel])
def ends(
    request: pytest.FixtureRequest, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Channel, ssl.SSLSocket]]:
    """A channel as a listener makes it, with a kernel that encrypts or one that does not, and the client's end."""
    of_socket = request.param is SocketTlsChannel
    monkeypatch.setattr(tls_channel, "kernel_can_encrypt", lambda: of_socket)
    of_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    of_server.load_cert_chain(certificates.path("server.pem"), certificates.path("server.key"))
    of_client = ssl.create_default_context(cafile=str(certificates.path("ca.pem")))
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(TIMEOUT_S)
    with ThreadPoolExecutor(1) as threads, ours, theirs:
        connecting = threads.submit(of_client.wrap_socket, theirs, server_hostname="127.0.0.1")
        sock = secured(of_server, ours, receive_buffer(), server_side=True)
        eventually(lambda: is_done(sock.do_handshake), "the handshake is done", within_s=TIMEOUT_S)
        channel, client = channel_of(sock), connecting.result(TIMEOUT_S)
        assert isinstance(channel, request.param)
        with client:
            yield channel, client
        channel.close()


def is_done(step: Callable[[], object]) -> bool:
    try:
        step()
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
        return False
    return True


def test_responses_of_memory_and_files_arrive_as_they_were_queued(
    ends: tuple[Channel, ssl.SSLSocket], tmp_path: Path
) -> None:
    channel, client = ends
    content = random.Random(1).randbytes(FILE_BYTES)
    path = tmp_path / "segment.log"
    path.write_bytes(content)
    file = SegmentFile(path)
    responses = UnsentResponses(channel)
    expected = b""
    for size_bytes in (1, 300, 200_000):
        responses.add([bytes(size_bytes), FileSlice(file, 10, FILE_BYTES - 10, lambda _: None), b"x", b"y" * 70_000])
        expected += bytes(size_bytes) + content[10:] + b"x" + b"y" * 70_000

    def send() -> bool:
        responses.send()
        return not responses.parts

    assert not send(), "more than the socket takes"
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(read, client, len(expected))
        eventually(send, "all is sent", within_s=TIMEOUT_S)
        assert reading.result(TIMEOUT_S) == expected
    assert responses.sent_bytes == len(expected)


def test_requests_arrive_as_they_were_sent(ends: tuple[Channel, ssl.SSLSocket]) -> None:
    channel, client = ends
    sent = random.Random(2).randbytes(500_000)

    def send() -> None:
        for at in range(0, len(sent), 1_777):
            client.sendall(sent[at : at + 1_777])

    with ThreadPoolExecutor(1) as threads:
        sending = threads.submit(send)
        received, target = bytearray(), memoryview(bytearray(10_000))

        def receive() -> bool:
            if is_done(lambda: received.extend(target[: channel.receive_into(target)])):
                while channel.has_received and is_done(
                    lambda: received.extend(target[: channel.receive_into(target)])
                ):
                    continue
            return len(received) == len(sent)

        eventually(receive, "all has arrived", within_s=TIMEOUT_S)
        sending.result(TIMEOUT_S)
    assert received == sent


def read(client: ssl.SSLSocket, size_bytes: int) -> bytes:
    taken = bytearray()
    while len(taken) < size_bytes:
        piece = client.recv(100_000)
        assert piece, "the connection has ended"
        taken += piece
    return bytes(taken)
