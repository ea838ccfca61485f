"""Free TCP ports on the loopback interface.

A port is found by binding port 0 and letting it go again. Between that and its use another process could take
it; the operating system hands ephemeral ports out in turn, so this is rare, and the launcher under test reports
it in one clear message when it does happen.
"""

import socket
from contextlib import ExitStack

LOOPBACK = "127.0.0.1"
CONSECUTIVE_ATTEMPTS_MAX = 50


def free_port() -> int:
    """One port that nothing listens on."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """`count` different ports that nothing listens on."""
    with ExitStack() as held:
        sockets = [held.enter_context(_bound(0)) for _ in range(count)]
        return [bound.getsockname()[1] for bound in sockets]


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


def _bound(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.bind((LOOPBACK, port))
    except OSError:
        bound.close()
        raise
    return bound
