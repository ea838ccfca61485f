"""Ports for a cluster."""

import socket
import subprocess
import sys

import pytest

from ottla.local.ports import (
    INTERNAL_PORT_FIRST,
    INTERNAL_PORT_LAST,
    RESERVATIONS_MAX,
    free_port_block,
    free_ports,
    is_free,
)

CHOICE_OF_ANOTHER = """
import sys
from ottla.local.ports import INTERNAL_PORT_FIRST, INTERNAL_PORT_LAST, free_ports
only = range(int(sys.argv[1]), int(sys.argv[1]) + 2)
avoid = set(range(INTERNAL_PORT_FIRST, INTERNAL_PORT_LAST + 1)) - set(only)
print(*free_ports(1, avoid=avoid), flush=True)
sys.stdin.readline()
"""


def test_a_port_with_a_listener_is_not_free():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not is_free(port)
    assert is_free(port)


def test_a_port_with_a_listener_on_all_addresses_is_not_free():
    with socket.create_server(("0.0.0.0", 0)) as server:
        assert not is_free(server.getsockname()[1])


def test_internal_ports_are_distinct_and_below_those_of_outgoing_connections():
    ports = free_ports(8)
    assert len(set(ports)) == 8
    assert all(INTERNAL_PORT_FIRST <= port <= INTERNAL_PORT_LAST for port in ports)


def test_ports_to_avoid_are_avoided():
    avoided = range(INTERNAL_PORT_FIRST, INTERNAL_PORT_LAST - 50)
    assert not set(free_ports(3, avoid=avoided)) & set(avoided)


def test_a_block_is_consecutive_and_free():
    first = free_port_block(3)
    assert all(is_free(port) for port in range(first, first + 3))


def test_what_another_process_has_chosen_is_not_chosen_before_it_listens_there():
    first = free_port_block(2)
    # The block is reserved by this process; as many ports later it is not, and another may choose from it.
    free_ports(RESERVATIONS_MAX)
    avoid = set(range(INTERNAL_PORT_FIRST, INTERNAL_PORT_LAST + 1)) - {first, first + 1}
    with subprocess.Popen(
        [sys.executable, "-c", CHOICE_OF_ANOTHER, str(first)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as another:
        assert another.stdin is not None
        assert another.stdout is not None
        chosen = int(another.stdout.readline())
        assert is_free(chosen)
        (left,) = {first, first + 1} - {chosen}
        assert free_ports(1, avoid=avoid) == [left]
        with pytest.raises(OSError, match="no 1 free ports"):
            free_ports(1, avoid=avoid)
        another.stdin.close()
