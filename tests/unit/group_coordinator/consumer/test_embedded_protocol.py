"""The subscriptions and assignments that classic consumers exchange."""

from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_core.cluster.state.model import ClusterState, Topic
from ottla_group_coordinator.consumer import embedded_protocol
from ottla_group_coordinator.consumer.embedded_protocol import (
    MalformedConsumerProtocol,
    read_assignment,
    read_subscription,
    write_assignment,
)

FLIGHTS = Topic(name="flights", id=UUID(int=1), partitions=())
PLANES = Topic(name="planes", id=UUID(int=2), partitions=())
TOPICS = {"flights": FLIGHTS, "planes": PLANES}
STATE = ClusterState(topics=TOPICS, topics_by_id={topic.id: topic for topic in TOPICS.values()})

TOPIC_LIST = b"\0\0\0\2\0\7flights\0\5other"
USER_DATA = b"\0\0\0\2hi"
OWNED = b"\0\0\0\2\0\7flights\0\0\0\2\0\0\0\0\0\0\0\3\0\4gone\0\0\0\1\0\0\0\0"
GENERATION = b"\0\0\0\7"
RACK = b"\0\2r1"


@pytest.mark.parametrize(
    ("data", "owned", "rack_id"),
    [
        (b"\0\0" + TOPIC_LIST + USER_DATA, {}, None),
        (b"\0\1" + TOPIC_LIST + USER_DATA + OWNED, {FLIGHTS.id: {0, 3}}, None),
        (b"\0\2" + TOPIC_LIST + USER_DATA + OWNED + GENERATION, {FLIGHTS.id: {0, 3}}, None),
        (b"\0\3" + TOPIC_LIST + USER_DATA + OWNED + GENERATION + RACK, {FLIGHTS.id: {0, 3}}, "r1"),
        (b"\0\x09" + TOPIC_LIST + USER_DATA + OWNED + GENERATION + RACK + b"news", {FLIGHTS.id: {0, 3}}, "r1"),
    ],
)
def test_subscriptions_of_all_versions_are_read(data: bytes, owned: object, rack_id: str | None) -> None:
    subscription = read_subscription(data, TOPICS)
    assert (subscription.topics, subscription.owned, subscription.rack_id) == ({"flights", "other"}, owned, rack_id)


@pytest.mark.parametrize("version", range(5))
def test_assignments_are_written_in_the_version_of_the_subscription_and_read_again(version: int) -> None:
    partitions = {FLIGHTS.id: frozenset({2, 0}), PLANES.id: frozenset({1}), UUID(int=9): frozenset({0})}
    data = write_assignment(partitions, version.to_bytes(2, "big"), STATE)
    assert data[:2] == min(version, 3).to_bytes(2, "big")
    del partitions[UUID(int=9)]  # its topic has gone
    assert read_assignment(data, TOPICS) == (partitions, b"")


def test_no_bytes_are_an_empty_assignment() -> None:
    assert read_assignment(b"", TOPICS) == ({}, b"")


def test_the_data_of_an_assignor_is_noticed() -> None:
    assert read_assignment(b"\0\0\0\0\0\0\0\0\0\2hi", TOPICS).user_data == b"hi"


@given(st.binary(max_size=60), st.sampled_from([b"", b"\0\0", b"\0\1", b"\0\3", b"\xff\xff"]))
def test_whatever_bytes_come_only_one_error_goes_out(data: bytes, version: bytes) -> None:
    for read in (read_subscription, read_assignment):
        with suppress(MalformedConsumerProtocol):
            read(version + data, TOPICS)


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (read_subscription, b"\0\0\x7f\xff\xff\xff" + 20 * b"\0"),
        (read_subscription, b'{"topics": ["flights"], "version": 1}'),
        (read_subscription, b"\0\1" + TOPIC_LIST + USER_DATA + b"\0\0\0\1\0\4gone\x7f\xff\xff\xff\0"),
        (read_assignment, b"\0\0\x7f\xff\xff\xff" + 20 * b"\0"),
    ],
)
def test_a_count_that_cannot_be_true_is_refused_before_room_is_made_for_it(
    read: Any, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader_of_nothing: Any = lambda *_: pytest.fail("kio would end the process if there is not so much memory")  # noqa: E731
    monkeypatch.setattr(embedded_protocol, "entity_reader", lambda _: reader_of_nothing)
    with pytest.raises(MalformedConsumerProtocol, match="cannot be read"):
        read(data, TOPICS)
