"""`ottla mirror link` and `verify --linked` with two clusters of real processes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.ottla_command import Ottla
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

RECORDS = 3000
ANY = ("create", "w", "--source", "{source}", "--topics", "a")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ottla]:
    with OttlaCluster(tmp_path_factory.mktemp("clusters") / "source") as cluster:
        made = Ottla(cluster.bootstrap)
        topics = ("orders", "orders.eu", "other")
        made.run("topic", "create", *topics, "--partitions", "2", "--config", "retention.ms=-1")
        yield made


@pytest.fixture
def target(tmp_path: Path, source: Ottla) -> Iterator[Ottla]:
    with OttlaCluster(tmp_path / "target") as cluster:
        yield Ottla(cluster.bootstrap)


def bootstrap(cluster: Ottla) -> str:
    return cluster.environment["OTTLA_BOOTSTRAP"]


def write(cluster: Ottla, topic: str, count: int = RECORDS) -> None:
    """Publishes records with keys, headers and nulls to both partitions."""
    producer = Producer({"bootstrap.servers": bootstrap(cluster), "compression.type": "zstd", "linger.ms": 5})
    for n in range(count):
        value = None if n % 7 == 0 else b"value-%d" % n
        producer.produce(topic, value, b"key-%d" % n, partition=n % 2, headers=[("n", b"%d" % n)])
    assert producer.flush(60) == 0


def verify(source: Ottla, target: Ottla, *arguments: str, differs: bool = False) -> list[dict[str, Any]]:
    command = ("mirror", "verify", "--source", bootstrap(source), "--linked", "--wait", "30", *arguments)
    found = target.json(*command, fails_with=int(differs))
    assert isinstance(found, list)
    return found


def test_topics_follow_are_equal_are_promoted_and_take_writes(source: Ottla, target: Ottla) -> None:
    write(source, "orders")
    link = ("mirror", "link", "create", "west", "--source", bootstrap(source))
    done = target.run(*link, "--topics", "orders.*", "--wait")
    assert done.stdout.decode().splitlines() == ["created west", "orders follows", "orders.eu follows"]

    assert {each["state"] for each in verify(source, target, "orders.*")} == {"equal"}

    def all_work() -> Any:
        """On a busy machine a broker may not tell in time."""
        (listed,) = target.json("mirror", "link", "list")
        return listed if listed["not_working"] == 0 else None

    listed = eventually(all_work, "all partitions are fetched")
    assert [each["topic"] for each in listed["topics"]] == ["orders", "orders.eu"]
    assert (listed["lag"], listed["partitions"]) == (0, 4)
    described = target.json("config", "describe", "topic", "orders")
    assert {each["key"]: each["value"] for each in described}["retention.ms"] == "-1"
    refused = target.run("produce", "orders", stdin=b"x\n", fails_with=1)
    assert "Policy violation" in refused.stderr.decode()

    asked = target.run("mirror", "link", "promote", "west", "orders", fails_with=1)
    assert "nothing was promoted, as there is no terminal to ask at" in asked.stderr.decode()
    found = target.json("mirror", "link", "status", "west")
    assert {each["state"] for each in found["partitions"]} == {"RUNNING"}
    assert [(each["link"], each["problems"]) for each in found["keeping"]] == [("west", [])]
    assert found["silent_brokers"] == []
    promoted = target.json("mirror", "link", "promote", "west", "orders", "--yes")
    assert [(each["topic"], each["not_copied"]) for each in promoted] == [("orders", 0)] * 2
    target.run("produce", "orders", stdin=b"written here\n")
    assert {each["state"] for each in verify(source, target, "orders", differs=True)} >= {"different"}
    refused = target.run("mirror", "link", "delete", "west", "--yes", fails_with=1)
    assert "orders.eu" in refused.stderr.decode()
    target.run("mirror", "link", "promote", "west", "--yes")
    assert target.run("mirror", "link", "delete", "west", "--yes").stdout == b"deleted west\n"
    assert target.json("mirror", "link", "list") == []


def test_pauses_throttles_and_new_topics(source: Ottla, target: Ottla) -> None:
    target.run("mirror", "link", "create", "west", "--source", bootstrap(source), "--topics", "later.*")
    source.run("topic", "create", "later", "--partitions", "1")
    target.run("mirror", "link", "refresh", "west")  # brokers may have looked already
    assert listed_topics(target) == [{"topic": "later", "partitions": 1, "following": 1}]
    source.run("topic", "alter", "later", "--partitions", "2")
    target.run("mirror", "link", "refresh", "west")
    assert listed_topics(target) == [{"topic": "later", "partitions": 2, "following": 2}]

    target.run("mirror", "link", "pause", "west")
    write(source, "later")
    status = ("mirror", "link", "status", "west")
    eventually(lambda: {each["state"] for each in target.json(*status)["partitions"]} == {"PAUSED"}, "it is paused")
    assert {each["state"] for each in verify_now(source, target, "later")} == {"behind"}
    target.run("mirror", "link", "resume", "west")
    target.run("mirror", "link", "throttle", "west", "20000000")
    assert target.json("mirror", "link", "list")[0]["throttle_bytes_per_second"] == 20_000_000
    target.run("mirror", "link", "throttle", "west", "none")
    assert target.json("mirror", "link", "list")[0]["throttle_bytes_per_second"] is None
    target.run("mirror", "link", "status", "west", "--wait")
    assert {each["state"] for each in verify(source, target, "later")} == {"equal"}


def listed_topics(target: Ottla) -> list[dict[str, Any]]:
    (listed,) = target.json("mirror", "link", "list")
    found = listed["topics"]
    assert isinstance(found, list)
    return found


def verify_now(source: Ottla, target: Ottla, topic: str) -> list[dict[str, Any]]:
    command = ("mirror", "verify", topic, "--source", bootstrap(source), "--linked", "--json")
    found = json.loads(target.run(*command, fails_with=1).stdout)
    assert isinstance(found, list)
    return found


def test_a_former_source_follows_once_the_old_link_is_gone_and_it_was_agreed_to(source: Ottla, target: Ottla) -> None:
    source.run("topic", "create", "back", "--partitions", "2")
    write(source, "back")
    target.run("mirror", "link", "create", "west", "--source", bootstrap(source), "--topics", "back", "--wait")
    target.run("mirror", "link", "promote", "west", "--yes")
    write(target, "back")
    write(source, "back", 4)
    reverse = ("mirror", "link", "reverse", "back", "--source", bootstrap(target), "--topics", "back")
    circle = source.run(*reverse, "--yes", fails_with=1)
    assert "links would form a cycle: link 'west'" in circle.stderr.decode()

    target.run("mirror", "link", "delete", "west", "--yes")
    shown = source.run(*reverse, fails_with=1)
    assert [line.split() for line in shown.stdout.decode().strip().splitlines()[-2:]] == [
        ["back", str(index), str(RECORDS // 2), str(RECORDS // 2 + 2), "2"] for index in range(2)
    ]
    assert "nothing was reversed, as there is no terminal to ask at" in shown.stderr.decode()
    assert source.json("mirror", "link", "list") == []

    source.run(*reverse, "--yes", "--wait")
    assert {each["state"] for each in verify(target, source, "back")} == {"equal"}
    source.run("mirror", "link", "promote", "back", "--yes")
    source.run("mirror", "link", "delete", "back", "--yes")


def test_an_independent_reader_finds_the_same_offsets(source: Ottla, target: Ottla) -> None:
    source.run("topic", "create", "read", "--partitions", "2")
    write(source, "read")
    target.run("mirror", "link", "create", "west", "--source", bootstrap(source), "--topics", "read", "--wait")
    assert read_all(target, "read") == read_all(source, "read")


def read_all(cluster: Ottla, topic: str) -> list[tuple[Any, ...]]:
    settings = {"bootstrap.servers": bootstrap(cluster), "group.id": "reader", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        found: list[Any] = []

        def everything() -> bool:
            found.extend(consumer.consume(RECORDS, 1.0))
            return len(found) >= RECORDS

        eventually(everything, f"{topic} has been read", within_s=30)
    finally:
        consumer.close()
    return sorted(
        (each.partition(), each.offset(), each.key(), each.value(), each.headers(), each.timestamp())
        for each in found
    )


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("create", "w", "--source", "{nobody}", "--topics", "a"), 1, "cannot reach {nobody}"),
        (("create", "w", "--source", "{source}", "--topics", "("), 2, "--topics (: missing )"),
        (("create", "w", "--source", "{target}", "--topics", "here"), 1, "would link this cluster to itself"),
        ((*ANY, "--source-X", "bootstrap.servers=x"), 2, "--source"),
        ((*ANY, "--source-X", "sasl.kerberos.keytab=x"), 2, "--source-property sasl.kerberos.keytab"),
        (("status", "nobody"), 1, "there is no link 'nobody'"),
        (("pause", "nobody"), 1, "there is no link 'nobody'"),
        (("throttle", "w", "fast"), 2, "whole number of bytes"),
    ],
)
def test_mistakes_are_one_line_and_change_nothing(
    source: Ottla, shared: Ottla, arguments: tuple[str, ...], code: int, told: str
) -> None:
    addresses = {"source": bootstrap(source), "target": bootstrap(shared), "nobody": "127.0.0.1:1"}
    failed = shared.run("mirror", "link", *(each.format(**addresses) for each in arguments), fails_with=code)
    assert len(failed.stderr.decode().splitlines()) == 1
    assert told.format(**addresses) in failed.stderr.decode()
    assert shared.json("mirror", "link", "list") == []


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ottla]:
    with OttlaCluster(tmp_path_factory.mktemp("shared") / "target") as cluster:
        made = Ottla(cluster.bootstrap)
        made.run("topic", "create", "here")
        yield made
