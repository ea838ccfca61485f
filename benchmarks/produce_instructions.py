"""What metrics and access control lists cost on the path of a produce, in instructions.

These are the same on a busy machine as on an idle one.

Valgrind's cachegrind counts every instruction of a process that has nothing but a broker's way from a connection to
the log (`produce_in_process.py`); once as it is, and once without the counting and timing (`metrics_overhead.CUTS`),
or once with access control lists and once without.
Each is run with few requests and with more of them, and the difference is what those cost, without the start. Lots
have a seed, so a second measurement finds the same, but for a few instructions in ten thousand.

The kernel's part is not counted, which both have alike: of the time of a request metrics take a smaller share than of
its instructions. Reads of the clock are system calls under Valgrind and not counted either. With metrics there is one
more for each read from the socket, and five for a measured request.
"""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.client import BenchmarkFailed
from benchmarks.metrics_overhead import bare_sources
from benchmarks.produce_in_process import BINDINGS, TOPIC
from benchmarks.small_requests import PIPELINE_DEPTH, check_answer, one_record_batch, produce_frame
from benchmarks.summary import Measures

PROGRAM: Final = "benchmarks.produce_in_process"
ROOT: Final = Path(__file__).resolve().parent.parent
CASES: Final[Mapping[str, tuple[int, int]]] = {
    "one record, pipelined": (100, PIPELINE_DEPTH),
    "one record, serial": (100, 1),
    "1 KB batch, pipelined": (1024, PIPELINE_DEPTH),
    "1 KB batch, serial": (1024, 1),
}
"""The bytes of a request's only record, and how many requests are on the way."""
WARM_UP_REQUESTS: Final = 800
TIMEOUT_S: Final = 600.0
_COUNTED: Final = re.compile(r"^summary: (\d+)", re.MULTILINE)


@dataclass(frozen=True)
class InstructionsPlan:
    """How much to measure: requests of each case and broker, apart from those that warm up, and access lists."""

    requests: int = 6_400
    bindings: int = 10_000


def measure_metrics(directory: Path, plan: InstructionsPlan, say: Callable[[str], None]) -> dict[str, Measures]:
    """Return for each case the instructions of a request with metrics, and what metrics add to those without."""
    bare = {"PYTHONPATH": str(bare_sources(directory / "bare"))}
    return _compared(directory, ("with metrics", {}), ("without", bare), plan, say)


def measure_acls(directory: Path, plan: InstructionsPlan, say: Callable[[str], None]) -> dict[str, Measures]:
    """Return the same for access control lists, beside a broker that has no authorizer."""
    lists = {BINDINGS: str(plan.bindings)}
    return _compared(directory, (f"with {plan.bindings} bindings", lists), ("without", {}), plan, say)


def _compared(
    directory: Path,
    whole: tuple[str, Mapping[str, str]],
    bare: tuple[str, Mapping[str, str]],
    plan: InstructionsPlan,
    say: Callable[[str], None],
) -> dict[str, Measures]:
    """Compare two brokers, each with its name and environment."""
    counts: dict[str, list[float]] = {case: [] for case in CASES}
    for name, environment in (whole, bare):
        with CountedBroker.started(directory / f"run {name}", environment) as broker:
            for case, (record_bytes, depth) in CASES.items():
                few, many = (
                    broker.instructions(record_bytes, depth, count)
                    for count in (WARM_UP_REQUESTS, WARM_UP_REQUESTS + plan.requests)
                )
                counts[case].append((many - few) / plan.requests)
                say(f"{case}: {counts[case][-1]:.0f} instructions {name}")
    return {
        case: {
            "instructions": first,
            "instructions_more": first - second,
            "overhead_percent": 100 * (first / second - 1),
        }
        for case, (first, second) in counts.items()
    }


class CountedBroker:
    """A program that forks a process for each run, whose instructions are counted from the program's start.

    Args:
        control: the socket over which it is told what to serve.
        directory: for logs and counts.
    """

    def __init__(self, control: socket.socket, directory: Path) -> None:
        self._control = control
        self._directory = directory
        self._runs = 0

    @classmethod
    @contextmanager
    def started(cls, directory: Path, own: Mapping[str, str]) -> "Iterator[CountedBroker]":
        """Start the program with an environment of its own, and end it afterwards."""
        directory.mkdir(parents=True)
        command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={directory}/%p.counts"]
        environment = {**os.environ, **own, "PYTHONHASHSEED": "0"}
        paths = [own.get("PYTHONPATH"), str(ROOT), os.environ.get("PYTHONPATH")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        ours, theirs = socket.socketpair()
        with ours, (directory / "log").open("w") as log:
            with theirs:
                process = subprocess.Popen(
                    [*command, sys.executable, "-m", PROGRAM],
                    stdin=theirs.fileno(),
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=environment,
                )
            try:
                yield cls(ours, directory)
                ours.shutdown(socket.SHUT_RDWR)
                process.wait(TIMEOUT_S)
            except (OSError, EOFError, subprocess.TimeoutExpired) as error:
                tail = (directory / "log").read_text()[-4000:]
                raise BenchmarkFailed(f"the counted process has not served all requests: {error}\n{tail}") from None
            finally:
                process.kill()
                process.wait()

    def instructions(self, record_bytes: int, depth: int, requests: int) -> int:
        """Return all instructions, the program's start included, of a process that serves so many requests."""
        self._runs += 1
        self._control.settimeout(TIMEOUT_S)
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                logs = self._directory / str(self._runs)
                socket.send_fds(self._control, [str(logs).encode()], [theirs.fileno()])
            _send(ours, record_bytes, depth, requests)
        pid = b""
        while not pid.endswith(b"\n"):
            pid += _received(self._control, 1)
        counted = _COUNTED.search((self._directory / f"{int(pid)}.counts").read_text())
        assert counted is not None, "cachegrind ends its file with a summary"
        return int(counted.group(1))


def _send(sock: socket.socket, record_bytes: int, depth: int, requests: int) -> None:
    """Send requests in bursts, and the next one only when all of a burst are answered: so all runs are alike."""
    sock.settimeout(TIMEOUT_S)
    frame = produce_frame(TOPIC, one_record_batch(b"x" * record_bytes))
    sock.sendall(frame)
    size = int.from_bytes(_received(sock, 4), "big")
    check_answer(bytes(4) + _received(sock, size))
    for _ in range(requests // depth):
        sock.sendall(frame * depth)
        answers = _received(sock, depth * (4 + size))
    check_answer(answers[-(4 + size) :])


def _received(sock: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        more = sock.recv(size - len(received))
        if not more:
            raise EOFError
        received += more
    return bytes(received)
