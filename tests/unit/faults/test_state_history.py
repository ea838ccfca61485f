"""Contradictions between what controllers have decided about a partition are found."""

from uuid import UUID

from ottla_core.cluster.state.model import NO_LEADER, PartitionState
from tests.faults.state_history import Version, led_by_one, state_problems

TOPIC = UUID(int=1)


def version(revision: int, *, leader: int, epoch: int, isr: tuple[int, ...] = (1, 2, 3), index: int = 0) -> Version:
    state = PartitionState(
        topic_id=TOPIC,
        index=index,
        replicas=(1, 2, 3),
        isr=isr,
        leader=leader,
        leader_epoch=epoch,
        partition_epoch=revision,
    )
    return Version(revision, state)


def problems(*versions: Version) -> list[str]:
    return [problem.partition(": ")[2] for problem in state_problems(versions)]


def test_elections_and_changes_of_the_in_sync_set_are_no_problem():
    assert (
        problems(
            version(5, leader=1, epoch=0),
            version(6, leader=1, epoch=0, isr=(1, 2)),
            version(7, leader=NO_LEADER, epoch=1, isr=(1, 2)),
            version(8, leader=2, epoch=2, isr=(2,)),
            version(9, leader=1, epoch=0, index=1),
        )
        == []
    )


def test_a_leader_epoch_that_goes_back_is_a_problem():
    assert problems(version(5, leader=1, epoch=3), version(6, leader=2, epoch=4), version(7, leader=1, epoch=3)) == [
        "at revision 7 the leader epoch went back from 4 to 3"
    ]


def test_two_leaders_in_one_epoch_are_a_problem():
    assert problems(version(5, leader=1, epoch=3), version(6, leader=2, epoch=3)) == [
        "leader epoch 3 belongs to 1 and, at 6, to 2"
    ]


def test_a_leader_outside_the_in_sync_set_is_a_problem():
    assert problems(version(5, leader=1, epoch=0, isr=(2, 3))) == [
        "at revision 5 leader 1 is outside the in-sync set (2, 3)"
    ]


def test_an_in_sync_set_beyond_the_replicas_is_a_problem():
    assert problems(version(5, leader=1, epoch=0, isr=(1, 4))) == [
        "at revision 5 the in-sync set (1, 4) is not within the replicas (1, 2, 3)"
    ]


def test_a_partition_is_led_by_one_until_its_leader_or_leader_epoch_changes():
    versions = [
        version(5, leader=1, epoch=0),
        version(6, leader=1, epoch=0, isr=(1,)),
        version(7, leader=1, epoch=0, index=1),
        version(8, leader=2, epoch=1, index=1),
        version(9, leader=1, epoch=0, index=2),
        version(10, leader=1, epoch=1, index=2),
    ]
    assert led_by_one(versions, TOPIC) == {0}
    assert led_by_one(versions, UUID(int=2)) == set()
