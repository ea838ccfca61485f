"""TCP ports of a local cluster.

Kafka listeners get the ports that the user counts on. The ports behind them (gRPC, metrics, etcd) are picked from
below the range from which the kernel takes ports for outgoing connections, so that no client's connection can sit
on one between the choice and the bind.
"""

import random
import socket
from collections.abc import Container
from contextlib import closing

LOOPBACK = "127.0.0.1"
INTERNAL_PORT_FIRST = 18_000
INTERNAL_PORT_LAST = 31_999
PORT_MAX = 65_535


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
        if port not in avoid and is_free(port):
            chosen.append(port)
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
        if all(port not in avoid and is_free(port) for port in range(start, start + count)):
            return start
    raise OSError(f"no {count} consecutive free ports between {INTERNAL_PORT_FIRST} and {INTERNAL_PORT_LAST}")
