"""The network of a trial, in real network namespaces beside the host's own rules."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.faults.network import NamespaceNetwork

pytestmark = [pytest.mark.slow, pytest.mark.requires("network namespaces")]

NAMES = ("one", "other")
SERVE = """
import socket, sys
server = socket.create_server((sys.argv[1], 0))
print(server.getsockname()[1], flush=True)
server.accept()
"""
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=10)"


@pytest.fixture
def host_that_forwards_nothing() -> Iterator[None]:
    """The host drops what it would forward, bridged packets included, as container engines have it."""
    rule = ["FORWARD", "-i", "ottla+", "-j", "DROP"]
    subprocess.run(["iptables", "-w", "-I", *rule], check=True)
    try:
        yield
    finally:
        subprocess.run(["iptables", "-w", "-D", *rule], check=True)


def test_processes_of_a_trial_reach_each_other_though_the_host_forwards_nothing(
    host_that_forwards_nothing: None,
) -> None:
    with NamespaceNetwork(NAMES) as network:
        serve = network.inside("other", [sys.executable, "-c", SERVE, network.address_of("other")])
        connect = [sys.executable, "-c", CONNECT, network.address_of("other")]
        with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                connect.append(server.stdout.readline().strip())
                subprocess.run(network.inside("one", connect), check=True, capture_output=True)
            finally:
                server.kill()


def test_nothing_is_left_of_the_rules_that_a_trial_added() -> None:
    with NamespaceNetwork(NAMES) as network:
        bridge = network.inside("one", [])[3].split("-")[0]
        assert f"-i {bridge}" in _rules()
    assert f"-i {bridge}" not in _rules()


def _rules() -> str:
    return subprocess.run(["iptables", "-w", "-S", "FORWARD"], check=True, capture_output=True, text=True).stdout
