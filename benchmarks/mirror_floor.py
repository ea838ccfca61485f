"""What any program pays that passes bytes on: it receives them from one connection and sends them over another."""

import multiprocessing
import socket
import time
from multiprocessing.connection import Connection
from typing import Final

from benchmarks.client import BenchmarkFailed

RECEIVED_AT_ONCE_BYTES: Final = 1024 * 1024
SENT_AT_ONCE_BYTES: Final = 64 * 1024
DEADLINE_S: Final = 240.0


def floor_cpu_s(total_bytes: int) -> float:
    """Return the CPU seconds of a process that passes so many bytes on, on this machine's loopback.

    Raises:
        BenchmarkFailed: it does not come to an end.
    """
    spawn = multiprocessing.get_context("spawn")
    parent, child = spawn.Pipe()
    with socket.create_server(("127.0.0.1", 0)) as source, socket.create_server(("127.0.0.1", 0)) as target:
        processes = [
            spawn.Process(target=_produce, args=(source, total_bytes), daemon=True),
            spawn.Process(target=_consume, args=(target,), daemon=True),
            spawn.Process(target=_pass_on, args=(source.getsockname(), target.getsockname(), child), daemon=True),
        ]
        for process in processes:
            process.start()
        if not parent.poll(DEADLINE_S):
            raise BenchmarkFailed("the floor of mirrors does not come to an end")
        used_s: float = parent.recv()
        for process in processes:
            process.join(DEADLINE_S)
    return used_s


def _produce(listening: socket.socket, total_bytes: int) -> None:
    sock, _ = listening.accept()
    data, left = bytes(RECEIVED_AT_ONCE_BYTES), total_bytes
    with sock:
        while left:
            left -= sock.send(data[:left])


def _consume(listening: socket.socket) -> None:
    sock, _ = listening.accept()
    buffer = bytearray(RECEIVED_AT_ONCE_BYTES)
    with sock:
        while sock.recv_into(buffer):
            pass


def _pass_on(source: tuple[str, int], target: tuple[str, int], result: "Connection[float, None]") -> None:
    buffer = memoryview(bytearray(RECEIVED_AT_ONCE_BYTES))
    with socket.create_connection(source) as incoming, socket.create_connection(target) as outgoing:
        used_s = time.process_time()
        while received := incoming.recv_into(buffer):
            for start in range(0, received, SENT_AT_ONCE_BYTES):
                outgoing.sendall(buffer[start : min(start + SENT_AT_ONCE_BYTES, received)])
        result.send(time.process_time() - used_s)
