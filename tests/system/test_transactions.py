"""Transactions at a real cluster: what counts, what is kept out, and what the tools find and mend."""

import os
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from kio.schema.errors import ErrorCode

from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_transactions import RawProducer, passing, request
from tests.support.clusters.doctor import Doctor
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.ottla_command import Ottla
from tests.support.eventually import eventually
from tests.support.transactions.planted_transaction import plant

pytestmark = pytest.mark.slow

NONE = ErrorCode.none
GONE = {ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced, ErrorCode.invalid_txn_state}
_numbers = count()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaCluster]:
    settings = ("offsets.topic.num.partitions=3", "transaction.state.log.num.partitions=3")
    arguments = [each for setting in settings for each in ("--set", f"broker:{setting}")]
    with OttlaCluster(
        tmp_path_factory.mktemp("transactions") / "cluster", brokers=1, coordinators=2, arguments=arguments
    ) as running:
        yield running


@pytest.fixture
def ottla(cluster: OttlaCluster) -> Ottla:
    return Ottla(cluster.bootstrap)


@pytest.fixture
def client(cluster: OttlaCluster) -> Iterator[RawClient]:
    with RawClient.to(cluster.bootstrap) as connected:
        yield connected


@pytest.fixture
def topic(ottla: Ottla) -> str:
    name = f"t-{next(_numbers)}"
    ottla.run("topic", "create", name, "--partitions", "2")
    return name


@pytest.fixture
def producer(client: RawClient) -> RawProducer:
    begun = RawProducer(client, f"id-{next(_numbers)}")
    begun.begin()
    return begun


def seen(cluster: OttlaCluster, topic: str, *, committed: bool = True) -> list[bytes]:
    """What a consumer gets of all partitions before it is at their ends."""
    level = "read_committed" if committed else "read_uncommitted"
    settings = {
        "bootstrap.servers": cluster.bootstrap, "group.id": "reader", "isolation.level": level,
        "enable.partition.eof": True, "auto.offset.reset": "earliest",
    }  # fmt: skip
    consumer = Consumer(settings)
    values: list[bytes] = []
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(2)])
        ends = 0
        deadline = time.monotonic() + 20
        while ends < 2 and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is None:
                continue
            if message.error():
                ends += 1
            else:
                values.append(message.value())
        assert ends == 2, "the consumer comes to the ends"
    finally:
        consumer.close()
    return sorted(values)


def test_records_of_all_partitions_count_when_their_transaction_is_committed(
    cluster: OttlaCluster, producer: RawProducer, topic: str
) -> None:
    assert producer.produce(topic, 0, b"a", b"b") == NONE
    assert producer.produce(topic, 1, b"c") == NONE
    assert seen(cluster, topic) == []
    assert seen(cluster, topic, committed=False) == [b"a", b"b", b"c"]

    epoch = producer.epoch
    assert producer.end(commits=True).error_code == NONE
    assert producer.epoch == epoch + 1
    eventually(lambda: seen(cluster, topic) == [b"a", b"b", b"c"], "all of it is seen")


def test_an_aborted_transaction_is_never_seen(cluster: OttlaCluster, producer: RawProducer, topic: str) -> None:
    assert producer.produce(topic, 0, b"aborted") == NONE
    assert producer.end(commits=False).error_code == NONE
    assert passing(lambda: producer.produce(topic, 0, b"committed")) == NONE
    assert producer.end(commits=True).error_code == NONE
    eventually(lambda: seen(cluster, topic) == [b"committed"], "the committed record is seen")


def test_what_comes_late_does_not_get_into_the_next_transaction(
    cluster: OttlaCluster, producer: RawProducer, topic: str
) -> None:
    """A batch that was on its way when its transaction was aborted, in both protocols."""
    assert producer.produce(topic, 0, b"one") == NONE
    late = producer.batch(b"late", sequence=1)
    assert producer.end(commits=False).error_code == NONE
    assert passing(lambda: producer.produce(topic, 0, b"two")) == NONE
    assert producer.write(topic, 0, late) in GONE
    assert producer.end(commits=True).error_code == NONE
    eventually(lambda: seen(cluster, topic) == [b"two"], "the second transaction is seen")


def test_an_older_client_writes_to_no_partition_that_it_has_not_added(
    cluster: OttlaCluster, producer: RawProducer, topic: str
) -> None:
    assert passing(lambda: producer.produce(topic, 0, b"hangs", version=11)) == ErrorCode.transaction_abortable
    assert producer.add(topic, 0) == {NONE}
    assert producer.produce(topic, 0, b"added", version=11) == NONE
    assert producer.produce(topic, 1, b"hangs", version=9) == ErrorCode.invalid_txn_state
    assert producer.end(commits=True, version=4).error_code == NONE
    eventually(lambda: seen(cluster, topic) == [b"added"], "the added partition's record is seen")
    assert seen(cluster, topic, committed=False) == [b"added"]


def test_of_a_repeated_end_the_answer_is_the_same(producer: RawProducer, topic: str) -> None:
    assert producer.produce(topic, 0, b"a") == NONE
    before = producer.producer_id, producer.epoch
    first = producer.end(commits=True)
    after = producer.producer_id, producer.epoch
    producer.producer_id, producer.epoch = before
    again: list[int] = []

    def end() -> ErrorCode:
        producer.producer_id, producer.epoch = before
        answer = producer.end(commits=True)
        again[:] = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    assert passing(end) == NONE
    assert (first.error_code, tuple(again)) == (NONE, after)
    producer.producer_id, producer.epoch = before
    assert producer.end(commits=False).error_code in GONE


def test_who_takes_an_id_over_ends_what_its_predecessor_has_begun_and_keeps_it_out(
    cluster: OttlaCluster, client: RawClient, producer: RawProducer, topic: str
) -> None:
    assert producer.produce(topic, 0, b"zombie") == NONE
    successor = RawProducer(client, producer.transactional_id)
    successor.begin()
    assert producer.produce(topic, 0, b"zombie") in GONE
    assert producer.end(commits=True).error_code in GONE
    assert passing(lambda: successor.produce(topic, 0, b"successor")) == NONE
    assert successor.end(commits=True).error_code == NONE
    eventually(lambda: seen(cluster, topic) == [b"successor"], "the successor's record is seen")


def test_a_transaction_that_is_left_open_is_aborted_at_its_time_out(
    cluster: OttlaCluster, client: RawClient, ottla: Ottla, topic: str
) -> None:
    left = RawProducer(client, f"left-{topic}", timeout_s=1)
    left.begin()
    assert left.produce(topic, 0, b"left") == NONE
    (listed,) = [
        each for each in ottla.json("transaction", "list", "--state", "Ongoing") if topic in each["transactional_id"]
    ]
    assert listed["producer_id"] == left.producer_id
    eventually(
        lambda: "Ongoing" not in ottla.json("transaction", "describe", left.transactional_id)[0]["state"],
        "the transaction is not open any more",
        within_s=30,
    )
    assert left.end(commits=True).error_code in GONE
    eventually(lambda: seen(cluster, topic) == [], "nothing is seen, and nothing is waited for")


def committed_offset(client: RawClient, group: str, topic: str, *, stable: bool) -> tuple[int, ErrorCode]:
    asked = request(
        9,
        8,
        groups=({"group_id": group, "topics": ({"name": topic, "partition_indexes": (0,)},)},),
        require_stable=stable,
    )
    (told,) = client.ask(asked).groups
    if told.error_code:
        return -1, ErrorCode(told.error_code)
    (partition,) = told.topics[0].partitions
    return partition.committed_offset, ErrorCode(partition.error_code)


@pytest.mark.parametrize("version", [3, 5])
def test_offsets_of_a_group_count_with_the_records_of_their_transaction(
    client: RawClient, producer: RawProducer, topic: str, version: int
) -> None:
    group = f"group-{topic}"
    find = request(10, 4, key_type=0, coordinator_keys=(group,))
    eventually(lambda: client.ask(find).coordinators[0].error_code == 0, "the group has a coordinator", within_s=30)
    unstable = ErrorCode.unstable_offset_commit

    def commit(offset: int) -> ErrorCode:
        if version < 5:
            added = request(
                25, 3, transactional_id=producer.transactional_id, producer_id=producer.producer_id,
                producer_epoch=producer.epoch, group_id=group,
            )  # fmt: skip
            assert passing(lambda: client.ask(added)) == NONE
        (code,) = producer.commit_offsets(group, {(topic, 0): offset}, version)
        return code

    assert passing(lambda: commit(5)) == NONE
    eventually(lambda: committed_offset(client, group, topic, stable=True)[1] == unstable, "the offset is pending")
    assert committed_offset(client, group, topic, stable=False) == (-1, NONE)
    assert producer.end(commits=True, version=5 if version >= 5 else 4).error_code == NONE
    eventually(lambda: committed_offset(client, group, topic, stable=True) == (5, NONE), "the offset counts")

    assert passing(lambda: commit(9)) == NONE
    assert producer.end(commits=False, version=5 if version >= 5 else 4).error_code == NONE
    eventually(lambda: committed_offset(client, group, topic, stable=True) == (5, NONE), "the offset has not moved")


def test_without_a_transaction_no_offset_is_taken(client: RawClient, producer: RawProducer, topic: str) -> None:
    group = f"group-{topic}"
    find = request(10, 4, key_type=0, coordinator_keys=(group,))
    eventually(lambda: client.ask(find).coordinators[0].error_code == 0, "the group has a coordinator", within_s=30)
    (code,) = producer.commit_offsets(group, {(topic, 0): 5}, 3)
    assert code == ErrorCode.invalid_txn_state


def test_a_hanging_transaction_is_found_and_aborted(tmp_path: Path) -> None:
    """It is planted in the files, as no client can make one."""
    with OttlaCluster(tmp_path / "cluster") as cluster:
        ottla = Ottla(cluster.bootstrap)
        ottla.run("topic", "create", "t", "--partitions", "2")
        ottla.run("produce", "t", "--partition", "0", stdin=b"before\n")
        eventually(lambda: seen(cluster, "t") == [b"before"], "the record is seen")
        cluster.stop()

        plant(cluster.directory / "broker-1" / "t-0", offset=1, producer_id=77, epoch=3)
        cluster.start()

        ottla, doctor = Ottla(cluster.bootstrap), Doctor.of(cluster)
        ottla.run("produce", "t", "--partition", "0", stdin=b"after\n")
        assert seen(cluster, "t") == [b"before"], "nobody gets past it"
        (found,) = ottla.json("transaction", "find-hanging", fails_with=1)
        assert (found["topic"], found["partition"], found["start_offset"]) == ("t", 0, 1)
        assert found["producer_id"] == 77
        told = doctor.expect_only("transaction-hangs", "t-0", "unavailable")
        doctor.apply(told)
        eventually(lambda: seen(cluster, "t") == [b"after", b"before"], "what is behind it is seen")
        assert ottla.json("transaction", "find-hanging") == []
        doctor.expect_health()


def test_a_coordinator_that_is_killed_loses_no_decision(cluster: OttlaCluster, client: RawClient, topic: str) -> None:
    producers = [RawProducer(client, f"{topic}-{number}") for number in range(6)]
    for each in producers:
        each.begin()
        assert passing(lambda each=each: each.produce(topic, 0, each.transactional_id.encode())) == NONE  # type: ignore[misc]
    for victim in [each for each in cluster.recorded() if each.role == "group-coordinator"]:
        os.kill(victim.pid, 9)
        place = (victim.role, victim.id)
        eventually(
            lambda victim=victim, place=place: any(  # type: ignore[misc]
                (each.role, each.id) == place and each.pid != victim.pid for each in cluster.recorded()
            ),
            "another process has its place",
            within_s=30,
        )
    for number, each in enumerate(producers):
        assert passing(lambda each=each, number=number: each.end(commits=number % 2 == 0)) == NONE  # type: ignore[misc]
    wanted = sorted(f"{topic}-{number}".encode() for number in (0, 2, 4))
    eventually(lambda: seen(cluster, topic) == wanted, "what was committed is seen, and nothing else", within_s=60)
