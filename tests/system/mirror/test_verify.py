"""`ottla mirror verify` with two clusters, whose topics are filled by hand so that they differ in known ways."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from ottla_core.wire.compression import Codec
from ottla_core.wire.records import Record, encode_batch
from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import delete_records_request, produce_request, produced
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.ottla_command import Ottla


@dataclass(frozen=True, slots=True)
class TwoClusters:
    """A source and a target, and the command for each."""

    source: Ottla
    target: Ottla

    def create(self, topic: str, *options: str, target_topic: str = "") -> None:
        """Creates a topic at both."""
        self.source.run("topic", "create", topic, *options)
        self.target.run("topic", "create", target_topic or topic, *options)

    def verify(self, *arguments: str, differs: bool = False) -> list[dict[str, Any]]:
        """What it finds, by partitions."""
        source = self.source.environment["OTTLA_BOOTSTRAP"]
        document = self.target.json("mirror", "verify", "--source", source, *arguments, fails_with=int(differs))
        assert isinstance(document, list)
        return document


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoClusters]:
    directory = tmp_path_factory.mktemp("clusters")
    with OttlaCluster(directory / "source") as source, OttlaCluster(directory / "target") as target:
        yield TwoClusters(Ottla(source.bootstrap), Ottla(target.bootstrap))


def publish(
    cluster: Ottla,
    topic: str,
    records: Sequence[Record],
    *,
    codec: Codec = Codec.NONE,
    batches: int = 1,
    partition: int = 0,
) -> None:
    """Publishes records in so many batches."""
    size = -(-len(records) // batches)
    with RawClient.to(cluster.environment["OTTLA_BOOTSTRAP"]) as client:
        for start in range(0, len(records), size):
            placed = [each._replace(offset=n) for n, each in enumerate(records[start : start + size])]
            request = produce_request(topic, encode_batch(placed, codec=codec), partition=partition)
            assert produced(client.ask(request)).error_code == 0


def records(count: int, start: int = 0, keys: int = 1_000_000) -> list[Record]:
    return [
        Record(0, 1_000 + n, b"key-%d" % (n % keys), None if n % 5 == 4 else b"value-%d" % n, (("n", b"%d" % n),))
        for n in range(start, start + count)
    ]


def test_equal_records_are_equal_in_other_batches_and_under_another_name(clusters):
    clusters.create("orders", "--partitions", "2", target_topic="west.orders")
    for partition, codec in enumerate((Codec.LZ4, Codec.ZSTD)):
        publish(clusters.source, "orders", records(1_000), codec=codec, batches=3, partition=partition)
        publish(clusters.target, "west.orders", records(1_000), batches=7, partition=partition)
    found = clusters.verify("orders", "--alias", "west")
    assert [(each["state"], each["records"]) for each in found] == [("equal", 1_000)] * 2
    assert {each["difference"]["kind"] for each in clusters.verify("orders", differs=True)} == {"no such topic"}


def test_a_target_that_lacks_the_end_is_behind(clusters):
    clusters.create("behind")
    publish(clusters.source, "behind", records(100), batches=10)
    publish(clusters.target, "behind", records(40))
    (found,) = clusters.verify("behind", "--wait", "0.2", differs=True)
    assert (found["state"], found["behind"], found["records"]) == ("behind", 60, 40)


def test_records_that_the_source_does_not_have_are_a_difference(clusters):
    clusters.create("more")
    publish(clusters.source, "more", records(100))
    publish(clusters.target, "more", records(101))
    (found,) = clusters.verify("more", differs=True)
    assert (found["difference"]["kind"], found["difference"]["target_offset"]) == ("only at the target", 100)


def test_a_record_that_is_missing_is_found_in_a_large_topic(clusters):
    clusters.create("large")
    row = records(20_000)
    publish(clusters.source, "large", row, codec=Codec.LZ4, batches=20)
    publish(clusters.target, "large", [*row[:12_345], *row[12_346:]], codec=Codec.LZ4, batches=20)
    (found,) = clusters.verify("large", differs=True)
    assert found["difference"]["kind"] == "missing at the target"
    assert found["difference"]["source_offset"] == found["difference"]["target_offset"] == 12_345


def test_linked_topics_must_have_the_same_batches(clusters):
    clusters.create("linked", "--partitions", "2")
    for cluster in (clusters.source, clusters.target):
        publish(cluster, "linked", records(100), codec=Codec.SNAPPY, batches=4)
    publish(clusters.source, "linked", records(100), partition=1)
    publish(clusters.target, "linked", records(100), batches=2, partition=1)
    found = clusters.verify("linked", "--linked", differs=True)
    assert [each["state"] for each in found] == ["equal", "different"]
    assert found[1]["difference"]["kind"] == "other bytes"


def test_of_a_compacted_topic_the_last_record_of_each_key_counts(clusters):
    clusters.create("compacted", "--config", "cleanup.policy=compact")
    row = records(100, keys=10)
    publish(clusters.source, "compacted", row, batches=4)
    publish(clusters.target, "compacted", row[50:])
    (found,) = clusters.verify("compacted")
    assert found["records"] == len({each.key for each in row[-10:] if each.value is not None})
    publish(clusters.source, "compacted", records(1, start=103))
    (found,) = clusters.verify("compacted", differs=True)
    assert (found["difference"]["kind"], found["difference"]["source_offset"]) == ("missing at the target", 100)


def test_records_without_a_key_of_a_compacted_topic_are_told(clusters):
    clusters.create("became-compacted")
    publish(clusters.source, "became-compacted", [Record(0, 1_000, None, b"value", ()), *records(3)])
    publish(clusters.target, "became-compacted", records(3))
    clusters.source.run("config", "set", "topic", "became-compacted", "cleanup.policy=compact")
    (found,) = clusters.verify("became-compacted")
    assert (found["state"], found["records"]) == ("equal", 3)
    assert "1 record of both sides without a key: not compared" in found["notes"]


def test_what_the_source_has_removed_is_not_compared(clusters):
    clusters.create("retention")
    for cluster in (clusters.source, clusters.target):
        publish(cluster, "retention", records(100), batches=5)
    with RawClient.to(clusters.source.environment["OTTLA_BOOTSTRAP"]) as client:
        client.ask(delete_records_request("retention", 40))
    (found,) = clusters.verify("retention")
    assert (found["state"], found["records"], found["source_start"]) == ("equal", 60, 40)
    (found,) = clusters.verify("retention", "--linked")
    assert found["state"] == "equal"


def test_what_the_target_has_removed_is_a_difference_unless_it_is_said(clusters):
    clusters.create("retention-there")
    for cluster in (clusters.source, clusters.target):
        publish(cluster, "retention-there", records(100), batches=5)
    with RawClient.to(clusters.target.environment["OTTLA_BOOTSTRAP"]) as client:
        client.ask(delete_records_request("retention-there", 40))
    assert clusters.verify("retention-there", differs=True)[0]["state"] == "different"
    assert (
        clusters.verify("retention-there", "--linked", differs=True)[0]["difference"]["kind"] == "other first offset"
    )
    for options in ([], ["--linked"]):
        assert clusters.verify("retention-there", "--overlap", *options)[0]["state"] == "equal"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ([], 2, "name the source cluster with --source or --source-profile"),
        (["--source", "127.0.0.1:1"], 1, "cannot reach 127.0.0.1:1"),
        (["--source", "nowhere:port"], 2, "--source nowhere:port: write it as HOST:PORT"),
        (["--source-profile", "nobody"], 1, "there is no profile nobody"),
        (["(", "--source", "SOURCE"], 2, "(: missing )"),
        (["absent", "--source", "SOURCE"], 1, "the source cluster has no such topics"),
        (["--source", "SOURCE", "--source-property", "bootstrap.servers=x"], 2, "name brokers with --source"),
        (["--source", "SOURCE", "--source-property", "no.such=1"], 1, "no.such"),
    ],
)
def test_mistakes_are_told_in_one_line(clusters, arguments, code, told):
    source = clusters.source.environment["OTTLA_BOOTSTRAP"]
    named = [source if each == "SOURCE" else each for each in arguments]
    failed = clusters.target.run("mirror", "verify", *named, fails_with=code)
    lines = failed.stderr.decode().splitlines()
    assert len(lines) == 1
    assert told in lines[0]
