"""`kafka-transactions.sh` and `ottla transaction` tell the same of a cluster, and each aborts what hangs in it."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from tests.compat.exactly_once.cluster import BROKERS, make_topics, three_brokers, wait_until_in_sync
from tests.compat.exactly_once.records import Record, committed_records, nothing_is_open
from tests.compat.java.kafka_tools import TRANSACTIONS, dump_segments, run_tool, run_tool_anyhow
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.ottla_command import Ottla
from tests.support.eventually import eventually
from tests.support.transactions.planted_transaction import plant

pytestmark = [pytest.mark.slow, pytest.mark.requires("kafka")]

TOPIC = "t"
PARTITIONS = 2
PLANTED_ID, PLANTED_EPOCH = 77, 3
DEADLINE_S = 60.0
LONG = {"transaction.timeout.ms": 600_000}


class Tools(NamedTuple):
    """Both tools for one cluster."""

    bootstrap: str
    ottla: Ottla

    def kafka(self, command: str, *arguments: str) -> list[dict[str, str]]:
        """The table that Kafka's tool prints: each row by the names of its columns."""
        printed = run_tool(TRANSACTIONS, "--bootstrap-server", self.bootstrap, command, *arguments)
        lines = [line.split("\t") for line in printed.splitlines() if "\t" in line]
        rows = [[cell.strip() for cell in line] for line in lines]
        return [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]

    def hanging_by_kafka(self) -> list[tuple[str, int, int, int]]:
        """What Kafka's tool finds, however young: topic, partition, producer id, start offset."""
        found = self.kafka("find-hanging", "--topic", TOPIC, "--max-transaction-timeout", "0")
        return sorted(
            (each["Topic"], int(each["Partition"]), int(each["ProducerId"]), int(each["StartOffset"]))
            for each in found
        )

    def hanging_by_ottla(self, *, hangs: bool) -> list[tuple[str, int, int, int]]:
        found = self.ottla.json("transaction", "find-hanging", "--max-timeout", "1ms", fails_with=1 if hangs else 0)
        return sorted((each["topic"], each["partition"], each["producer_id"], each["start_offset"]) for each in found)


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[OttlaCluster]:
    """A cluster in which a transaction hangs in each partition of a topic, behind its one record, in all replicas."""
    with three_brokers(tmp_path / "cluster") as cluster:
        make_topics(cluster, [TOPIC], PARTITIONS)
        write(cluster, "before")
        cluster.stop()
        for number in range(1, BROKERS + 1):
            for partition in range(PARTITIONS):
                directory = cluster.directory / f"broker-{number}" / f"{TOPIC}-{partition}"
                plant(directory, offset=1, producer_id=PLANTED_ID, epoch=PLANTED_EPOCH)
        cluster.start()
        wait_until_in_sync(cluster)
        yield cluster


def write(cluster: OttlaCluster, value: str) -> None:
    """Writes a record to each partition."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, value, key="k", partition=partition)
    assert producer.flush(DEADLINE_S) == 0


def open_one(cluster: OttlaCluster) -> Producer:
    """A producer in the midst of a transaction."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "open", **LONG})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(TOPIC, "open", key="k", partition=0)
    assert producer.flush(DEADLINE_S) == 0
    return producer


def test_both_tools_tell_the_same_and_abort_what_hangs(planted: OttlaCluster) -> None:
    tools = Tools(planted.bootstrap, Ottla(planted.bootstrap))
    goes_on = open_one(planted)

    (listed,) = tools.kafka("list")
    (told,) = tools.ottla.json("transaction", "list")
    assert (listed["TransactionalId"], listed["TransactionState"]) == ("open", "Ongoing")
    assert (told["transactional_id"], told["state"]) == ("open", "Ongoing")
    assert (int(listed["ProducerId"]), int(listed["Coordinator"])) == (told["producer_id"], told["coordinator"])

    (described,) = tools.kafka("describe", "--transactional-id", "open")
    (told,) = tools.ottla.json("transaction", "describe", "open")
    assert (described["TransactionState"], described["TopicPartitions"]) == ("Ongoing", f"{TOPIC}-0")
    assert (told["state"], told["partitions"]) == ("Ongoing", [f"{TOPIC}-0"])
    assert (int(described["ProducerId"]), int(described["ProducerEpoch"])) == (
        told["producer_id"],
        told["producer_epoch"],
    )
    assert int(described["TransactionTimeoutMs"]) == told["timeout_ms"]

    producers = tools.kafka("describe-producers", "--topic", TOPIC, "--partition", "0")
    starts = {int(each["ProducerId"]): each["CurrentTransactionStartOffset"] for each in producers}
    assert starts == {PLANTED_ID: "1", told["producer_id"]: "2"}

    hanging = [(TOPIC, partition, PLANTED_ID, 1) for partition in range(PARTITIONS)]
    assert tools.hanging_by_kafka() == hanging
    assert tools.hanging_by_ottla(hangs=True) == hanging

    tools.kafka("abort", "--topic", TOPIC, "--partition", "0", "--start-offset", "1")
    eventually(lambda: tools.hanging_by_kafka() == hanging[1:], "Kafka's tool sees that it is aborted")
    assert tools.hanging_by_ottla(hangs=True) == hanging[1:]
    tools.ottla.run("transaction", "abort", TOPIC, "1", "--start-offset", "1", "--yes")
    eventually(lambda: tools.hanging_by_kafka() == [], "Kafka's tool finds nothing more")
    assert tools.hanging_by_ottla(hangs=False) == []
    refused = run_tool_anyhow(
        TRANSACTIONS, "--bootstrap-server", tools.bootstrap,
        *("abort", "--topic", TOPIC, "--partition", "1", "--start-offset", "1"),
    )  # fmt: skip
    assert "Could not find any open transactions starting at offset 1" in refused

    goes_on.commit_transaction(DEADLINE_S)
    write(planted, "after")
    eventually(lambda: nothing_is_open(planted.bootstrap, [TOPIC], PARTITIONS), "nothing is open any more")
    assert committed_records(planted.bootstrap, TOPIC, PARTITIONS) == {
        0: [Record("k", value) for value in ("before", "open", "after")],
        1: [Record("k", value) for value in ("before", "after")],
    }
    planted.stop()
    dump_segments(sorted(planted.directory.glob(f"broker-*/{TOPIC}-*/*.log")))
