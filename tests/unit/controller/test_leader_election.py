"""Elections, as a table: who is registered, what the partition was, what it becomes."""

from uuid import UUID

import pytest

from ottla_controller.leader_election import elections, first_state, has_valid_leader, topics_to_examine
from ottla_core.cluster.model import (
    NO_EPOCH,
    NO_LEADER,
    ClusterState,
    Member,
    PartitionState,
    Role,
    Topic,
)

ID = UUID(int=1)


def live(*registrations: str) -> dict[int, Member]:
    """Registered brokers as `id@epoch`."""
    brokers = {}
    for registration in registrations:
        broker_id, epoch = map(int, registration.split("@"))
        brokers[broker_id] = Member(
            role=Role.BROKER,
            id=broker_id,
            epoch=epoch,
            incarnation=UUID(int=1),
            rpc_address="h:1",
            version="1",
        )
    return brokers


def partition(isr: str, leader: str, leader_epoch: int, replicas: str = "123") -> PartitionState:
    """A partition from short words: `partition("12", "1@5", 0)`; leader `none` for no leader."""
    leader_id, broker_epoch = (NO_LEADER, NO_EPOCH) if leader == "none" else map(int, leader.split("@"))
    return PartitionState(
        topic_id=ID,
        index=0,
        replicas=tuple(map(int, replicas)),
        isr=tuple(map(int, isr)),
        leader=leader_id,
        leader_epoch=leader_epoch,
        leader_broker_epoch=broker_epoch,
        partition_epoch=42,
    )


def after_election(before: PartitionState, brokers: dict[int, Member], *, unclean: bool = False) -> PartitionState:
    topic = Topic(name="t", id=ID, partitions=(before,))
    changed = elections([topic], brokers, allows_unclean=lambda _: unclean)
    return changed[0] if changed else before


@pytest.mark.parametrize(
    ("story", "before", "brokers", "after"),
    [
        ("leader is fine", ("123", "1@5", 3), live("1@5", "2@6", "3@7"), ("123", "1@5", 3)),
        ("a follower's death is the leader's business", ("123", "1@5", 3), live("1@5"), ("123", "1@5", 3)),
        ("leader is gone", ("123", "1@5", 3), live("2@6", "3@7"), ("23", "2@6", 4)),
        ("leader and next are gone", ("123", "1@5", 3), live("3@7"), ("3", "3@7", 4)),
        ("only those in sync can lead", ("13", "1@5", 3), live("2@6", "3@7"), ("3", "3@7", 4)),
        ("leader came back before anybody looked", ("123", "1@5", 3), live("1@9", "2@6"), ("2", "2@6", 4)),
        ("the only one came back", ("1", "1@5", 3), live("1@9"), ("1", "1@9", 4)),
        ("nobody in sync is left", ("12", "1@5", 3), live("3@7"), ("12", "none", 4)),
        ("still nobody", ("12", "none", 4), live("3@7"), ("12", "none", 4)),
        ("one in sync comes back", ("12", "none", 4), live("2@8", "3@7"), ("2", "2@8", 5)),
        ("all in sync come back", ("12", "none", 4), live("1@9", "2@8"), ("12", "1@9", 5)),
    ],
)
def test_elections(
    story: str, before: tuple[str, str, int], brokers: dict[int, Member], after: tuple[str, str, int]
) -> None:
    assert after_election(partition(*before), brokers) == partition(*after), story


def test_an_unclean_election_takes_the_first_live_replica_alone_in_the_isr() -> None:
    before = partition("1", "1@5", 3)
    assert after_election(before, live("2@6", "3@7"), unclean=True) == partition("2", "2@6", 4)


def test_an_unclean_election_is_not_held_while_somebody_in_sync_lives() -> None:
    before = partition("13", "1@5", 3)
    assert after_election(before, live("2@6", "3@7"), unclean=True) == partition("3", "3@7", 4)


def test_an_elected_state_is_valid_and_needs_no_further_election() -> None:
    brokers = live("2@6", "3@7")
    elected = after_election(partition("123", "1@5", 3), brokers)
    assert has_valid_leader(elected, brokers)
    assert after_election(elected, brokers) is elected


def test_a_new_partition_is_led_by_its_first_live_replica_which_alone_is_in_sync() -> None:
    assert first_state(ID, 0, (3, 1, 2), live("1@5", "2@6")) == PartitionState(
        topic_id=ID,
        index=0,
        replicas=(3, 1, 2),
        isr=(1,),
        leader=1,
        leader_epoch=0,
        leader_broker_epoch=5,
    )


def test_only_what_can_have_become_invalid_is_examined() -> None:
    first, second = (Topic(name=name, id=ID, partitions=()) for name in "ab")
    state = ClusterState(brokers=live("1@5"), topics={"a": first})
    assert list(topics_to_examine(None, state)) == [first]
    assert list(topics_to_examine(state, state)) == []
    grown = ClusterState(brokers=state.brokers, topics={"a": first, "b": second})
    assert list(topics_to_examine(state, grown)) == [second]
    restarted = ClusterState(brokers=live("1@6"), topics=grown.topics)
    assert list(topics_to_examine(grown, restarted)) == [first, second]
