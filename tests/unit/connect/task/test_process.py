"""A process of a connector or task begins with the worker's policy in force."""

import socket
from collections.abc import Iterator

import pytest

from ottla_connect.task.channel import Channel
from ottla_connect.task.process import Process
from ottla_sdk.network_policy import forbid_internal_addresses, internal_addresses_are_forbidden
from ottla_sdk.runtime.redaction import Redaction


@pytest.fixture
def channel() -> Iterator[Channel]:
    own, other = socket.socketpair()
    with own, other:
        yield Channel(own)
    forbid_internal_addresses(forbidden=False)


@pytest.mark.parametrize(("allowed", "forbidden"), [("true", False), ("false", True)])
def test_addresses_are_judged_by_the_workers_setting(channel: Channel, allowed: str, forbidden: bool) -> None:
    Process.make(channel, Redaction(), {"connector.internal.addresses.allowed": allowed})
    assert internal_addresses_are_forbidden() is forbidden


def test_classes_are_judged_by_the_workers_setting(channel: Channel) -> None:
    made = Process.make(
        channel, Redaction(), {"connector.classes.denied": "*.FileSink", "connector.classes.allowed": "a,b"}
    )
    assert (made.lookup.policy.allowed, made.lookup.policy.denied) == (("a", "b"), ("*.FileSink",))
