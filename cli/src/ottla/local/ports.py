"""TCP ports of a local cluster.

Kafka listeners get the ports that the user counts on. The ports behind them (gRPC, metrics, etcd) are picked from
below the range from which the kernel takes ports for outgoing connections, so that no client's connection can sit
on one between the choice and the bind. Nor can another cluster that is started at the same time choose one of them:
a chosen port is reserved by a name among the kernel's abstract sockets (unix(7)), which belong to a network namespace
as ports do, and which end with the process that chose.
"""

import random
import socket
from collections import deque
from collections.abc import Container
from contextlib import closing
from typing import Final

LOOPBACK = "127.0.0.1"
INTERNAL_PORT_FIRST = 18_000
INTERNAL_PORT_LAST = 31_999
PORT_MAX = 65_535

# Of earlier calls; a process that starts cluster after cluster, as tests do, would else run out of file descriptors.
RESERVATIONS_MAX: Final = 128
_reservations: Final[deque[socket.socket]] = deque()


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Tell whether a server could listen on the port now."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_ports(count: int, avoid: Container[int] = ()) -> list[int]:
    """Return distinct free ports for internal use.

    Raises:
        OSError: the range has too few free ports.
    """
    chosen: list[int] = []
    candidates = list(range(INTERNAL_PORT_FIRST, INTERNAL_PORT_LAST + 1))
    random.shuffle(candidates)
    for port in candidates:
        if len(chosen) == count:
            break
        if port not in avoid and _take(port):
            chosen.append(port)
    _forget_reservations(but=count)
    if len(chosen) < count:
        raise OSError(f"no {count} free ports between {INTERNAL_PORT_FIRST} and {INTERNAL_PORT_LAST}")
    return chosen


def free_port_block(count: int, avoid: Container[int] = ()) -> int:
    """Return the first of `count` consecutive free ports for internal use.

    Raises:
        OSError: the range has no such block.
    """
    starts = list(range(INTERNAL_PORT_FIRST, INTERNAL_PORT_LAST + 2 - count))
    random.shuffle(starts)
    for start in starts:
        block = range(start, start + count)
        if not any(port in avoid for port in block) and all(_take(port) for port in block):
            _forget_reservations(but=count)
            return start
    raise OSError(f"no {count} consecutive free ports between {INTERNAL_PORT_FIRST} and {INTERNAL_PORT_LAST}")


def _take(port: int) -> bool:
    """Reserve a port if a server could listen on it, and no other process has reserved it."""
    reservation = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        reservation.bind(f"\0ottla-port-{port}")
    except OSError:
        reservation.close()
        return False
    # Not before: who reserved it until now may have begun to listen.
    if not is_free(port):
        reservation.close()
        return False
    _reservations.append(reservation)
    return True


def _forget_reservations(but: int) -> None:
    """End the oldest reservations, but keep this many of the newest in any case."""
    while len(_reservations) > max(RESERVATIONS_MAX, but):
        _reservations.popleft().close()
