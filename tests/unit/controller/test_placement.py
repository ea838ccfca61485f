"""Where replicas go."""

from collections import Counter
from dataclasses import replace
from uuid import UUID

import pytest

from ottla_controller.placement import check_assignment, place_replicas
from ottla_core.cluster.state.model import Member, Role
from ottla_core.errors import InvalidReplicaAssignment, InvalidReplicationFactor


def brokers(**racks: str | None) -> dict[int, Member]:
    """Brokers by id: `brokers(b1="r1", b2=None)`."""
    return {
        int(name[1:]): Member(
            role=Role.BROKER,
            id=int(name[1:]),
            epoch=1,
            incarnation=UUID(int=1),
            rpc_address="h:1",
            version="1",
            rack=rack,
        )
        for name, rack in racks.items()
    }


FOUR = brokers(b1=None, b2=None, b3=None, b4=None)
RACKED = brokers(b1="a", b2="a", b3="b", b4="b", b5="c", b6="c")


def test_replicas_are_striped_over_brokers_and_shift_with_every_turn() -> None:
    placed = place_replicas(FOUR, partitions=range(8), replication_factor=2, start=0)
    assert placed == [(1, 2), (2, 3), (3, 4), (4, 1), (1, 3), (2, 4), (3, 1), (4, 2)]


def test_added_partitions_continue_the_stripes() -> None:
    whole = place_replicas(FOUR, partitions=range(9), replication_factor=3, start=5)
    parts = [
        *place_replicas(FOUR, partitions=range(4), replication_factor=3, start=5),
        *place_replicas(FOUR, partitions=range(4, 9), replication_factor=3, start=5),
    ]
    assert parts == whole


@pytest.mark.parametrize("replication_factor", [1, 2, 3])
def test_leaders_and_replicas_are_spread_evenly_and_racks_never_repeat(replication_factor: int) -> None:
    placed = place_replicas(RACKED, partitions=range(60), replication_factor=replication_factor, start=17)
    assert Counter(replicas[0] for replicas in placed) == dict.fromkeys(RACKED, 10)
    for replicas in placed:
        assert len({RACKED[broker_id].rack for broker_id in replicas}) == replication_factor
    load = Counter(broker_id for replicas in placed for broker_id in replicas)
    assert max(load.values()) - min(load.values()) <= 60 * replication_factor // 6


def test_brokers_about_to_leave_get_replicas_only_where_the_others_are_too_few() -> None:
    leaving = FOUR | {2: replace(FOUR[2], shutting_down=True)}
    for replication_factor, used in ((3, {1, 3, 4}), (4, {1, 2, 3, 4})):
        placed = place_replicas(leaving, partitions=range(6), replication_factor=replication_factor, start=0)
        assert {broker_id for replicas in placed for broker_id in replicas} == used


def test_with_more_replicas_than_racks_every_rack_is_used_before_one_is_used_twice() -> None:
    for replicas in place_replicas(RACKED, partitions=range(12), replication_factor=5, start=0):
        assert len(set(replicas)) == 5
        assert {RACKED[broker_id].rack for broker_id in replicas[:3]} == {"a", "b", "c"}


def test_a_dead_brokers_partitions_move_to_different_followers() -> None:
    placed = place_replicas(FOUR, partitions=range(24), replication_factor=2, start=0)
    assert {follower for leader, follower in placed if leader == 1} == {2, 3, 4}


def test_one_broker_takes_everything() -> None:
    assert place_replicas(brokers(b7="x"), partitions=range(3), replication_factor=1, start=9) == [(7,)] * 3


@pytest.mark.parametrize(("live", "factor"), [({}, 1), (FOUR, 5)])
def test_more_replicas_than_brokers_are_refused(live: dict[int, Member], factor: int) -> None:
    with pytest.raises(InvalidReplicationFactor, match=f"larger than available brokers: {len(live)}"):
        place_replicas(live, partitions=range(1), replication_factor=factor, start=0)


@pytest.mark.parametrize(
    ("broker_ids", "replication_factor", "named"),
    [
        ((), None, "no brokers"),
        ((1, 9), None, "broker 9"),
        ((1, 1), None, "more than once"),
        ((1, 2), 3, "2 replica"),
    ],
)
def test_a_bad_assignment_is_refused(broker_ids: tuple[int, ...], replication_factor: int | None, named: str) -> None:
    with pytest.raises(InvalidReplicaAssignment, match=named):
        check_assignment(broker_ids, FOUR, replication_factor)


def test_a_good_assignment_passes() -> None:
    check_assignment((4, 1), FOUR, 2)
