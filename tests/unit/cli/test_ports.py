"""Ports for a cluster."""

import socket

from ottla.local.ports import INTERNAL_PORT_FIRST, INTERNAL_PORT_LAST, free_port_block, free_ports, is_free


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
