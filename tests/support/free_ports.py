"""Free TCP ports on the loopback interface.

A port is found by binding it and letting it go again, and is used a moment later. So that nobody takes it meanwhile,
ports come from below those that the system gives to outgoing connections, each test process goes through them from a
place of its own, and none is handed out twice before all others were.
"""

import itertools
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

LOOPBACK = "127.0.0.1"
FIRST_PORT = 10_000
PORT_COUNT = 8_000
"""`ottla up` picks its own ports from 18000 on, and Linux those of connections from 32768 on."""
CONSECUTIVE_ATTEMPTS_MAX = 50
PLACE_STEP = 7_919
"""A prime, so that processes with neighbouring ids begin far apart."""

_places = itertools.count(os.getpid() * PLACE_STEP)


def free_port() -> int:
    """One port that nothing listens on."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """`count` different ports that nothing listens on."""
    found: list[int] = []
    for port in itertools.islice(_candidates(), PORT_COUNT):
        with suppress(OSError), _bound(port):
            found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError(f"found only {len(found)} of {count} free ports")


def free_port_block(count: int) -> int:
    """The first of `count` consecutive free ports, for a launcher that counts upwards from a base port."""
    for _ in range(CONSECUTIVE_ATTEMPTS_MAX):
        first = free_port()
        try:
            with ExitStack() as held:
                for port in range(first, first + count):
                    held.enter_context(_bound(port))
        except (OSError, OverflowError):
            continue
        return first
    raise RuntimeError(f"found no {count} consecutive free ports in {CONSECUTIVE_ATTEMPTS_MAX} attempts")


def _candidates() -> Iterator[int]:
    return (FIRST_PORT + place % PORT_COUNT for place in _places)


def _bound(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.bind((LOOPBACK, port))
    except OSError:
        bound.close()
        raise
    return bound
