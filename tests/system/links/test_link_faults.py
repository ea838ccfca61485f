"""Linked topics while brokers of the target die, and while the source is not what it was."""

import shutil
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from kio.schema.errors import ErrorCode

from ottla_core.cluster.controller_rpc.link_api import LinkedPartitionState
from tests.support.clients.raw_requests import create_topic_request, delete_topic_request
from tests.support.clients.steady_writer import SteadyWriter, read_values
from tests.support.clusters.linked_clusters import Target
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

COUNT = 500
KILLS = 4


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedCluster]:
    settings = {"unclean.leader.election.enable": "true"}
    directory = tmp_path_factory.mktemp("source")
    with ReplicatedCluster(directory, brokers=1, broker_settings=settings, controller_settings=settings) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, source: ReplicatedCluster) -> Iterator[Target]:
    # Consumers and this test look soon; a broker that is killed is out of the way after its lease.
    settings = {"member.lease.ttl.ms": "3000"}
    with ReplicatedCluster(tmp_path_factory.mktemp("target"), brokers=3, broker_settings=settings) as cluster:
        target = Target(cluster, source.bootstrap)
        target.create_link()
        yield target


def write(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, value=str(number), partition=0)
    assert producer.flush(60) == 0


def check_prefixes(source: ReplicatedCluster, target: Target, topic: str) -> None:
    """Each replica is a beginning of the source's log; what is written meanwhile is looked at before the source."""
    copies = {broker: target.cluster.log_bytes(broker, topic) for broker in target.cluster.brokers}
    original = source.log_bytes(1, topic)
    for broker, copy in copies.items():
        assert original.startswith(copy), f"replica {broker} of {topic} is no beginning of its source"


def test_leaders_of_the_target_that_die_leave_a_beginning_of_the_source_on_every_replica(
    source: ReplicatedCluster, target: Target
) -> None:
    source.create_topic("killed")
    target.follow("killed", replication_factor=3)
    with SteadyWriter(source.bootstrap, "killed") as writer:
        for _ in range(KILLS):
            writer.wait_for_acknowledgements(COUNT)
            leader = target.cluster.state_of("killed").leader
            target.cluster.brokers[leader].kill()
            check_prefixes(source, target, "killed")
            target.cluster.wait_for_other_leader("killed", leader)
            writer.wait_for_acknowledgements(COUNT)
            check_prefixes(source, target, "killed")
            target.cluster.brokers[leader].start()
            target.cluster.wait_for_isr("killed", {1, 2, 3})
    writer.check_complete()
    end = max(writer.acknowledged.values()) + 1
    target.wait_for_end("killed", end)
    assert target.cluster.wait_for_equal_logs("killed") == source.log_bytes(1, "killed")
    assert read_values(target.cluster.bootstrap, "killed", up_to=end) == read_values(
        source.bootstrap, "killed", up_to=end
    )


def test_promotion_under_load_is_a_cut_at_which_the_target_goes_on(source: ReplicatedCluster, target: Target) -> None:
    source.create_topic("promoted")
    target.follow("promoted", replication_factor=3)
    with SteadyWriter(source.bootstrap, "promoted") as there:
        there.wait_for_acknowledgements(COUNT)
        target.promote("promoted")
        with SteadyWriter(target.cluster.bootstrap, "promoted") as here:
            here.wait_for_acknowledgements(COUNT)
    first = min(offset for offset in here.acknowledged.values() if offset >= 0)
    assert not here.failures
    copied = read_values(target.cluster.bootstrap, "promoted", up_to=first)
    assert copied == read_values(source.bootstrap, "promoted", up_to=first)
    own = read_values(target.cluster.bootstrap, "promoted", up_to=max(here.acknowledged.values()) + 1)[first:]
    assert [int(value) for _, value in own] == list(range(len(own)))
    target.cluster.wait_for_equal_logs("promoted")


def test_a_topic_that_is_created_anew_in_the_source_is_another_one(source: ReplicatedCluster, target: Target) -> None:
    source.create_topic("anew")
    write(source.bootstrap, "anew", COUNT)
    target.follow("anew", replication_factor=3)
    target.wait_for_end("anew", COUNT)
    before = target.cluster.wait_for_equal_logs("anew")
    source.ask(delete_topic_request("anew"))
    target.wait_for_state("anew", LinkedPartitionState.SOURCE_DELETED)

    def created() -> bool:
        (answer,) = source.ask(create_topic_request("anew")).topics
        return bool(answer.error_code is ErrorCode.none)

    eventually(created, "the topic is created anew")
    write(source.bootstrap, "anew", 2 * COUNT)
    status = target.wait_for_state("anew", LinkedPartitionState.SOURCE_RECREATED)
    assert status.log_end_offset == COUNT
    assert target.cluster.wait_for_equal_logs("anew") == before


def test_a_source_that_has_lost_records_and_written_others_stops_the_partition(
    source: ReplicatedCluster, target: Target
) -> None:
    source.create_topic("lost")
    write(source.bootstrap, "lost", COUNT)
    target.follow("lost", replication_factor=3)
    target.wait_for_end("lost", COUNT)
    before = target.cluster.wait_for_equal_logs("lost")
    broker = source.brokers[1]
    broker.stop()
    shutil.rmtree(broker.data / "lost-0")
    broker.start()
    eventually(lambda: source.state_of("lost").leader == 1, "the source leads with an empty log")
    write(source.bootstrap, "lost", 2 * COUNT)
    status = target.wait_for_state("lost", LinkedPartitionState.SOURCE_TRUNCATED)
    assert "it has lost them" in status.reason
    assert target.cluster.wait_for_equal_logs("lost") == before
    target.promote("lost")
    write(target.cluster.bootstrap, "lost", 1)


def test_a_paused_link_copies_nothing_and_goes_on_where_it_stopped(source: ReplicatedCluster, target: Target) -> None:
    source.create_topic("paused")
    write(source.bootstrap, "paused", COUNT)
    target.follow("paused", replication_factor=3)
    target.wait_for_end("paused", COUNT)
    target.alter(paused=True)
    target.wait_for_state("paused", LinkedPartitionState.PAUSED)
    write(source.bootstrap, "paused", COUNT)
    assert target.status("paused").log_end_offset == COUNT
    target.alter(paused=False)
    target.wait_for_end("paused", 2 * COUNT)


def test_a_topic_grows_with_its_source(source: ReplicatedCluster, target: Target) -> None:
    source.create_topic("growing", partitions=1)
    target.follow("growing", replication_factor=3)
    target.grow("growing")
    assert target.status("growing").state is not LinkedPartitionState.FAILED


def test_a_source_that_is_away_makes_the_partition_wait(source: ReplicatedCluster, target: Target) -> None:
    source.create_topic("away")
    write(source.bootstrap, "away", COUNT)
    target.follow("away", replication_factor=3)
    target.wait_for_end("away", COUNT)
    source.brokers[1].stop()
    status = target.wait_for_state("away", LinkedPartitionState.WAITING)
    assert source.bootstrap in status.reason
    source.brokers[1].start()
    target.wait_for_state("away", LinkedPartitionState.RUNNING)
    write(source.bootstrap, "away", COUNT)
    target.wait_for_end("away", 2 * COUNT)
