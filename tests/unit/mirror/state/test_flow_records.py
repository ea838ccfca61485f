"""What workers note of flows comes back as it was noted, the last record of a key counting."""

import pytest

from ottla_core.errors import InvalidRecord
from ottla_mirror.state.flow_records import (
    ClusterIds,
    CreatedFlow,
    FlowState,
    Steering,
    clusters_record,
    flow_record,
    steering_record,
    topic_record,
)

FLOW = CreatedFlow(
    source="A", target="B", settings={"topics": "orders"}, source_settings={"bootstrap.servers": "a:1"}
)
STEERING = Steering(paused=True, has_throttle=True, throttle_bytes_per_s=5)
IDS = ClusterIds(source="x", target="y")


def after(*entries) -> FlowState:
    state = FlowState()
    for entry in entries:
        state.apply(entry.key, entry.value)
    return state


def test_everything_comes_back():
    state = after(
        flow_record("A->B", FLOW),
        steering_record("A->B", STEERING),
        clusters_record("A->B", IDS),
        topic_record("A->B", "A.orders", "orders"),
        topic_record("C->B", "C.orders", "orders"),
    )
    assert state.created == {"A->B": FLOW}
    assert state.steering == {"A->B": STEERING}
    assert state.clusters == {"A->B": IDS}
    assert state.made_by("A->B") == {"A.orders": "orders"}
    assert state.made_by_others("A->B") == {"C.orders": "C->B"}


def test_what_is_taken_back_is_gone():
    state = after(
        flow_record("A->B", FLOW),
        steering_record("A->B", STEERING),
        clusters_record("A->B", IDS),
        topic_record("A->B", "A.orders", "orders"),
        flow_record("A->B", None),
        steering_record("A->B", None),
        clusters_record("A->B", None),
        topic_record("A->B", "A.orders", None),
    )
    assert not state.created
    assert not state.steering
    assert not state.clusters
    assert not state.made_by("A->B")


@pytest.mark.parametrize(
    ("key", "value"), [(None, b"{}"), (b"x", b"{}"), (b'["flow"]', b"{}"), (b'["flow", "A"]', b'{"surprise": 1}')]
)
def test_a_record_of_another_kind_is_refused(key, value):
    with pytest.raises(InvalidRecord):
        FlowState().apply(key, value)


def test_kinds_of_later_versions_are_passed_over():
    FlowState().apply(b'["later", "A->B"]', b"{}")


def test_with_how_many_partitions_a_flow_has_begun_is_known_where_it_was_noted():
    state = after(topic_record("A->B", "A.orders", "orders", 3), topic_record("A->B", "A.old", "old"))
    assert (state.began_with("A->B", "A.orders"), state.began_with("A->B", "A.old")) == (3, None)
    assert state.began_with("C->B", "A.orders") is None
    gone = topic_record("A->B", "A.orders", None)
    state.apply(gone.key, gone.value)
    assert state.began_with("A->B", "A.orders") is None
