"""Very many connections, of which some are busy: what they cost a broker, and how long its answers take.

Every repetition starts the target on new data, so that memory is counted from the same beginning. All connections ask
for ApiVersions first, as clients do. Then the busy ones publish records of 100 bytes, one to a request, in turn and
at an even rate. A request that is due is sent whether or not the one before it on its connection is answered, and its
time runs from the moment when it was due, so that a broker that stands still is charged for all that wait.
"""

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from kio.schema.api_versions.v0.request import ApiVersionsRequest

from benchmarks.client import BenchmarkFailed, CpuMeter, Subject, temporary_topic
from benchmarks.footprint import settled_mib
from benchmarks.small_requests import RECORD_BYTES, check_answer, one_record_batch, produce_frame
from benchmarks.summary import Measures, percentiles
from benchmarks.targets import Target
from benchmarks.warm_up import warm_up
from tests.support.clients.raw_client import encode_request

CONNECTED_AT_ONCE_MAX = 100
"""Connections that are opened before the first of them is answered; fewer than listeners let wait."""
WARM_UP_SHARE = 0.2
"""How much longer the busy connections publish, before they are measured."""
ANSWER_TIMEOUT_S = 60.0
RECEIVE_BYTES = 64 * 1024
_LENGTH = struct.Struct(">i")


@dataclass(frozen=True, kw_only=True)
class ConnectionsPlan:
    """What to measure.

    Attributes:
        connections: how many are open.
        busy: how many of them publish.
        rate_per_s: requests of all of these.
        seconds: for how long.
        repetitions: of everything, on every target.
    """

    connections: int = 10_000
    busy: int = 1_000
    rate_per_s: float = 2_000.0
    seconds: float = 20.0
    repetitions: int = 3


class Publisher:
    """A connection, and the requests on it that are not answered yet."""

    __slots__ = ("due_s", "received", "socket")

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.received = b""
        self.due_s: deque[float] = deque()

    def take_answers(self) -> list[tuple[float, bytes]]:
        """Read once; return each answer that is complete, with when its request was due."""
        received = self.socket.recv(RECEIVE_BYTES)
        if not received:
            raise BenchmarkFailed("the broker closed a connection")
        self.received += received
        answers = []
        while len(self.received) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self.received)[0]
            if len(self.received) < end:
                break
            answers.append((self.due_s.popleft(), self.received[:end]))
            self.received = self.received[end:]
        return answers


def measure(
    makers: Mapping[str, Callable[[Path], Target]], directory: Path, plan: ConnectionsPlan, say: Callable[[str], None]
) -> dict[str, list[Measures]]:
    """Return the figures of every repetition by the name of the target; the targets take turns."""
    found: dict[str, list[Measures]] = {name: [] for name in makers}
    for repetition in range(1, plan.repetitions + 1):
        for name, make in makers.items():
            say(f"connections: {name}, {repetition} of {plan.repetitions}")
            target = make(directory / f"{name}-{repetition}")
            try:
                subject = target.start()
                if name == "kafka":
                    warm_up(subject)
                found[name].append(_measure(subject, plan))
            finally:
                target.stop()
    return found


def _measure(subject: Subject, plan: ConnectionsPlan) -> Measures:
    with temporary_topic(subject.bootstrap) as topic, ExitStack() as opened:
        before_mib = settled_mib(subject.pid)
        began_s = time.perf_counter()
        sockets = _connect_all(subject.bootstrap, plan.connections, opened)
        connected_s = time.perf_counter() - began_s
        idle_mib = settled_mib(subject.pid)
        frame = produce_frame(topic, one_record_batch(bytes(RECORD_BYTES)))
        publishers = [Publisher(sock) for sock in sockets[: plan.busy]]
        _publish(publishers, frame, plan.rate_per_s, plan.seconds * WARM_UP_SHARE)
        meter = CpuMeter(subject)
        waits_ms = _publish(publishers, frame, plan.rate_per_s, plan.seconds)
        cpu, _ = meter.stop()
        return {
            "connect_s": connected_s,
            "connections_add_mib": idle_mib - before_mib,
            "busy_add_mib": settled_mib(subject.pid) - idle_mib,
            "cpu_us_per_request": cpu.total_s / len(waits_ms) * 1e6,
            **percentiles(waits_ms, "answer_{}_ms"),
        }


def _connect_all(bootstrap: str, count: int, opened: ExitStack) -> list[socket.socket]:
    """Open connections and wait until the broker has answered on each."""
    host, _, port = bootstrap.rpartition(":")
    payload = encode_request(ApiVersionsRequest(), 1)
    frame = _LENGTH.pack(len(payload)) + payload
    sockets: list[socket.socket] = []
    while len(sockets) < count:
        some = []
        for _ in range(min(CONNECTED_AT_ONCE_MAX, count - len(sockets))):
            sock = opened.enter_context(socket.create_connection((host, int(port)), timeout=ANSWER_TIMEOUT_S))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.sendall(frame)
            some.append(sock)
        for sock in some:
            (size,) = _LENGTH.unpack(_read(sock, _LENGTH.size))
            _read(sock, size)
        sockets += some
    return sockets


def _read(sock: socket.socket, count: int) -> bytes:
    received = sock.recv(count, socket.MSG_WAITALL)
    if len(received) != count:
        raise BenchmarkFailed(f"the broker closed a connection after {len(received)} of {count} bytes")
    return received


def _publish(publishers: Sequence[Publisher], frame: bytes, rate_per_s: float, seconds: float) -> list[float]:
    """Publish at the rate, and return how long each answer took, in milliseconds."""
    by_fd = {publisher.socket.fileno(): publisher for publisher in publishers}
    waits_ms: list[float] = []
    total, sent, checked_bytes = int(rate_per_s * seconds), 0, 0
    with select.epoll() as poller:
        for fd in by_fd:
            poller.register(fd, select.EPOLLIN)
        began_s = time.perf_counter()
        heard_s = began_s
        while len(waits_ms) < total:
            due_s = began_s + sent / rate_per_s
            now_s = time.perf_counter()
            if sent < total and now_s >= due_s:
                publisher = publishers[sent % len(publishers)]
                publisher.due_s.append(due_s)
                publisher.socket.sendall(frame)
                sent += 1
                due_s = began_s + sent / rate_per_s
            for fd, _ in poller.poll(max(0.0, due_s - now_s) if sent < total else 1.0):
                answers = by_fd[fd].take_answers()
                heard_s = time.perf_counter()
                waits_ms += [(heard_s - due_s) * 1000 for due_s, _ in answers]
                for _, answer in answers:
                    if len(answer) != checked_bytes:  # those that are errors differ in size
                        check_answer(answer)
                        checked_bytes = len(answer)
            if time.perf_counter() - heard_s > ANSWER_TIMEOUT_S:
                raise BenchmarkFailed(f"{total - len(waits_ms)} requests were not answered")
    return waits_ms
