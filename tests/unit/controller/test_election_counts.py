"""Elections are counted as a controller sees them happen, clean and unclean ones apart."""

from dataclasses import replace
from uuid import UUID

import pytest

from ottla_controller.election_counts import ElectionCounts
from ottla_core.cluster.state.model import NO_LEADER, ClusterState, PartitionState, Topic

ID = UUID(int=1)
BEFORE = PartitionState(
    topic_id=ID,
    index=0,
    replicas=(1, 2, 3),
    isr=(1, 2),
    leader=1,
    leader_epoch=5,
    leader_broker_epoch=10,
    eligible_leaders=(3,),
)


def state(*partitions: PartitionState) -> ClusterState:
    topic = Topic(name="t", id=ID, partitions=partitions, configs={})
    return ClusterState(topics={"t": topic}, topics_by_id={ID: topic})


@pytest.mark.parametrize(
    ("after", "clean", "unclean"),
    [
        (replace(BEFORE, leader=2, leader_epoch=6, leader_broker_epoch=11), 1, 0),
        (replace(BEFORE, leader_epoch=6, leader_broker_epoch=12), 1, 0),
        (replace(BEFORE, leader=3, isr=(3,), leader_epoch=6, leader_broker_epoch=13), 1, 0),
        (replace(BEFORE, leader=4, isr=(4,), leader_epoch=6, leader_broker_epoch=14), 0, 1),
        (replace(BEFORE, leader=NO_LEADER, leader_epoch=6), 0, 0),
        (replace(BEFORE, leader_epoch=6), 0, 0),
        (replace(BEFORE, isr=(1,)), 0, 0),
        (BEFORE, 0, 0),
    ],
)
def test_who_leads_anew_was_elected(after: PartitionState, clean: int, unclean: int) -> None:
    counts = ElectionCounts()
    counts.state_changed(state(BEFORE), state(after))
    assert counts.elections == {"clean": clean, "unclean": unclean}


def test_new_topics_and_partitions_do_not_count() -> None:
    counts = ElectionCounts()
    counts.state_changed(ClusterState(), state(BEFORE))
    counts.state_changed(state(BEFORE), state(BEFORE, replace(BEFORE, index=1)))
    assert counts.elections == {"clean": 0, "unclean": 0}
