"""What a broker that leaves waits for."""

from dataclasses import replace
from uuid import UUID

import pytest

from ottla_broker.controlled_shutdown import must_wait
from ottla_core.cluster.state.model import ClusterState, Member, PartitionState, Role, Topic

LEAVING = 1


def member(broker_id: int, *, shutting_down: bool = False) -> Member:
    return Member(
        role=Role.BROKER, id=broker_id, epoch=7, incarnation=UUID(int=broker_id), rpc_address="", version="1",
        shutting_down=shutting_down,
    )  # fmt: skip


def cluster(isr: tuple[int, ...], *, leader: int = LEAVING, others_leaving: tuple[int, ...] = ()) -> ClusterState:
    partition = PartitionState(
        topic_id=UUID(int=1), index=0, replicas=(1, 2, 3), isr=isr, leader=leader, leader_epoch=0
    )
    topic = Topic(name="t", id=partition.topic_id, partitions=(partition,))
    brokers = {number: member(number, shutting_down=number in (LEAVING, *others_leaving)) for number in (1, 2, 3)}
    return ClusterState(brokers=brokers, topics={"t": topic})


@pytest.mark.parametrize(
    ("state", "waits"),
    [
        (cluster((1, 2, 3)), True),
        (cluster((1, 2, 3), leader=2), True),
        (cluster((2, 3), leader=2), False),
        (cluster((1,)), False),
        (cluster((1, 2), others_leaving=(2,)), False),
        (cluster((1, 2, 3), others_leaving=(2,)), True),
    ],
    ids=["leads", "is in sync", "is out", "is alone", "all leave", "one stays"],
)
def test_it_waits_while_somebody_who_stays_could_take_its_part(state: ClusterState, waits: bool) -> None:
    assert must_wait(state, LEAVING) is waits


def test_it_does_not_wait_for_brokers_that_have_gone() -> None:
    state = cluster((1, 2))
    assert not must_wait(replace(state, brokers={1: state.brokers[1]}), LEAVING)
