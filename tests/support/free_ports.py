"""Free TCP ports on the loopback interface.

A port is found by binding it and letting it go again, and is used a moment later. So that nobody takes it meanwhile,
ports come from below those that the system gives to outgoing connections, each test process claims a slice of them
for as long as it lives, and none of its slice is handed out twice before all others were.
"""

import functools
import itertools
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

LOOPBACK = "127.0.0.1"
FIRST_PORT = 10_000
PORT_COUNT = 8_000
"""`ottla up` picks its own ports from 18000 on, and Linux those of connections from 32768 on."""
SLICE_SIZE = 400
CONSECUTIVE_ATTEMPTS_MAX = 50

_claims: list[socket.socket] = []
"""Held, not used; the system lets go of them when the process ends, however it ends."""


def free_port() -> int:
    """One port that nothing listens on."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """`count` different ports that nothing listens on."""
    found: list[int] = []
    for port in itertools.islice(_slice(), SLICE_SIZE):
        with suppress(OSError), _bound(port):
            found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError(f"found only {len(found)} of {count} free ports")


def free_port_block(count: int) -> int:
    """The first of `count` consecutive free ports, for a launcher that counts upwards from a base port."""
    for _ in range(CONSECUTIVE_ATTEMPTS_MAX):
        ports = list(itertools.islice(_slice(), count))
        if ports[-1] - ports[0] != count - 1:
            continue  # the slice's end lies between them
        try:
            with ExitStack() as held:
                for port in ports:
                    held.enter_context(_bound(port))
        except OSError:
            continue
        return ports[0]
    raise RuntimeError(f"found no {count} consecutive free ports in {CONSECUTIVE_ATTEMPTS_MAX} attempts")


@functools.cache
def _slice() -> Iterator[int]:
    """The ports of this process, again and again."""
    for first in range(FIRST_PORT, FIRST_PORT + PORT_COUNT, SLICE_SIZE):
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            claim.bind(f"\0ottla-tests-ports-{first}")
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return itertools.cycle(range(first, first + SLICE_SIZE))
    raise RuntimeError(f"{PORT_COUNT // SLICE_SIZE} other test processes have all the ports")


def _bound(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.bind((LOOPBACK, port))
    except OSError:
        bound.close()
        raise
    return bound
