"""Which replica a consumer is sent to."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from ottla_broker.partition import Partition
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_broker.replica_selection import replica_in_rack
from ottla_core.cluster.state.model import Endpoint, Member, Role
from ottla_core.wire.fetch_response import NO_PREFERRED_REPLICA
from tests.support.broker.readable_partitions import BROKER, FOLLOWER, OTHER_FOLLOWER, ReadablePartitions, append

LISTENER = "PLAINTEXT"
IN_SYNC = (BROKER, FOLLOWER, OTHER_FOLLOWER)


def member(broker_id: int, rack: str | None) -> Member:
    return Member(
        role=Role.BROKER,
        id=broker_id,
        epoch=70 + broker_id,
        incarnation=UUID(int=broker_id),
        rpc_address="",
        version="",
        rack=rack,
        endpoints=(Endpoint(listener=LISTENER, host="h", port=1),),
    )


BROKERS = {BROKER: member(BROKER, "a"), FOLLOWER: member(FOLLOWER, "b"), OTHER_FOLLOWER: member(OTHER_FOLLOWER, "b")}


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    """One of three records, of which the followers have two and three."""
    partitions = ReadablePartitions(tmp_path)
    partition = partitions.add(isr=IN_SYNC)
    for _ in range(3):
        append(partition)
    for follower, offset in ((FOLLOWER, 2), (OTHER_FOLLOWER, 3)):
        partition.record_follower_fetch(FollowerContact(follower, 70, 0), offset=offset, log_start_offset=1)
    yield partition
    partitions.close()


def choose(partition: Partition, rack: str, *, offset: int = 1, brokers: dict[int, Member] | None = None) -> int:
    return replica_in_rack(partition, offset, rack, brokers or BROKERS, LISTENER)


def test_the_furthest_follower_in_the_rack_is_chosen(partition: Partition) -> None:
    assert choose(partition, "b") == OTHER_FOLLOWER


def test_the_leader_is_preferred_in_its_own_rack_and_where_nobody_is(partition: Partition) -> None:
    brokers = {**BROKERS, FOLLOWER: member(FOLLOWER, "a")}
    assert choose(partition, "a", brokers=brokers) == NO_PREFERRED_REPLICA
    assert choose(partition, "c") == NO_PREFERRED_REPLICA


def test_a_follower_must_be_in_sync(partition: Partition) -> None:
    partition.apply(replace(partition.state, isr=(BROKER, FOLLOWER), partition_epoch=101), leads=True)
    assert choose(partition, "b") == FOLLOWER


def test_a_follower_must_have_the_offset(partition: Partition) -> None:
    assert choose(partition, "b", offset=0) == NO_PREFERRED_REPLICA
    assert choose(partition, "b", offset=3) == OTHER_FOLLOWER
    assert choose(partition, "b", offset=4) == NO_PREFERRED_REPLICA


def test_a_follower_must_be_alive_reachable_and_about_to_stay(partition: Partition) -> None:
    gone = {broker: BROKERS[broker] for broker in (BROKER, FOLLOWER)}
    leaving = {**BROKERS, OTHER_FOLLOWER: replace(BROKERS[OTHER_FOLLOWER], shutting_down=True)}
    elsewhere = {**BROKERS, OTHER_FOLLOWER: replace(BROKERS[OTHER_FOLLOWER], endpoints=())}
    for brokers in (gone, leaving, elsewhere):
        assert choose(partition, "b", brokers=brokers) == FOLLOWER


def test_a_replica_that_follows_sends_nobody_elsewhere(partition: Partition) -> None:
    partition.apply(replace(partition.state, leader=FOLLOWER, leader_epoch=1), leads=False)
    assert choose(partition, "b") == NO_PREFERRED_REPLICA
