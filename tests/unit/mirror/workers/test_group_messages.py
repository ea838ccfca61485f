"""What workers tell each other is read as it was meant."""

from uuid import UUID

import pytest

from ottla_core.errors import InvalidRecord
from ottla_mirror.workers.assignment import FlowPartition, MemberState, TopicNames, TopicOf, Work
from ottla_mirror.workers.group_messages import (
    Assignment,
    decode_assignment,
    decode_state,
    encode_assignment,
    encode_state,
)

WORK = Work(
    frozenset(
        {FlowPartition("A->B", "orders", 0), FlowPartition("A->B", "orders", 7), FlowPartition("C->B", "x", 1)}
    ),
    {
        TopicOf("A->B", "orders"): TopicNames(UUID(int=5), "A.orders"),
        TopicOf("C->B", "x"): TopicNames(UUID(int=0), "C.x"),
    },
)


def test_states_and_assignments_come_back():
    state = MemberState(url="http://w:1", flows=frozenset({"A->B", "C->B"}), held=WORK, key="a2V5")
    assert decode_state(encode_state(state)) == state
    assignment = Assignment(
        work=WORK,
        totals={"A->B": 4},
        leader_url="http://w:1",
        worker_urls=("http://w:1",),
        worker_keys=("a2V5",),
    )
    assert decode_assignment(encode_assignment(assignment)) == assignment


def test_who_is_told_nothing_has_nothing_to_do():
    assert decode_assignment(b"") == Assignment()


@pytest.mark.parametrize(
    "data", [b"x", b"[]", b"{}", b'{"url": 1, "flows": 2}', b'{"url":"","flows":[],"held":{"a":3}}']
)
def test_what_is_not_understood_is_refused(data: bytes):
    with pytest.raises(InvalidRecord):
        decode_state(data)
    with pytest.raises(InvalidRecord):
        decode_assignment(data)
