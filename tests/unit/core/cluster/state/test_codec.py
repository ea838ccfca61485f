"""Values in etcd: round trips, tolerance of newer writers, refusal of bad values by name."""

import json
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from ottla_core.cluster.state import codec
from ottla_core.cluster.state.codec import TopicRecord
from ottla_core.cluster.state.json_fields import BadValue, UnknownFormat
from ottla_core.cluster.state.keys import LinkKey, MemberKey, PartitionKey, RegistrationKey, ShardKey
from ottla_core.cluster.state.model import (
    BrokerRegistration,
    ControllerLeader,
    Endpoint,
    Link,
    Member,
    PartitionState,
    Role,
    Shard,
    TopicOrigin,
)
from ottla_core.topic_partition import TopicPartition

TOPIC_ID = UUID(int=1)
PARTITION = PartitionState(
    topic_id=TOPIC_ID,
    index=2,
    replicas=(3, 1),
    isr=(3,),
    leader=3,
    leader_epoch=5,
    leader_broker_epoch=44,
    adding=(1,),
    removing=(9,),
    partition_epoch=77,
    eligible_leaders=(1,),
)
REGISTRATION = BrokerRegistration(
    broker_id=4, broker_epoch=12, directory_ids=(UUID(int=3), UUID(int=4)), rack="r1", revision=91
)
SHARD_KEY = ShardKey("__consumer_offsets", 7)
SHARD = Shard(
    topic_partition=TopicPartition("__consumer_offsets", 7),
    coordinator=2,
    coordinator_epoch=31,
    producer_id=4000,
    producer_epoch=3,
    revision=90,
)
MEMBER = Member(
    role=Role.BROKER,
    id=4,
    epoch=12,
    incarnation=UUID(int=2),
    rpc_address="10.0.0.1:9090",
    version="0.1.0",
    rack="r1",
    endpoints=(Endpoint(listener="PLAINTEXT", host="broker-4", port=9092),),
    directory_ids=(UUID(int=3), UUID(int=4)),
    shutting_down=True,
    intact_since=11,
)


def test_a_partition_comes_back_with_its_mod_revision_as_partition_epoch() -> None:
    assert codec.decode_partition(PartitionKey(TOPIC_ID, 2), codec.encode_partition(PARTITION), 77) == PARTITION


def test_a_member_comes_back_with_its_create_revision_as_epoch() -> None:
    assert codec.decode_member(MemberKey(Role.BROKER, 4), codec.encode_member(MEMBER), 12) == MEMBER


def test_what_an_earlier_version_did_not_write_has_its_default() -> None:
    def without(value: bytes, field: str) -> bytes:
        return json.dumps({name: item for name, item in json.loads(value).items() if name != field}).encode()

    partition = without(codec.encode_partition(PARTITION), "eligible_leaders")
    assert codec.decode_partition(PartitionKey(TOPIC_ID, 2), partition, 77).eligible_leaders == ()
    member = without(codec.encode_member(MEMBER), "shutting_down")
    assert not codec.decode_member(MemberKey(Role.BROKER, 4), member, 12).shutting_down


@pytest.mark.parametrize("registration", [REGISTRATION, replace(REGISTRATION, rack=None, directory_ids=())])
def test_a_registration_comes_back_with_its_mod_revision(registration: BrokerRegistration) -> None:
    value = codec.encode_registration(registration)
    assert codec.decode_registration(RegistrationKey(4), value, 91) == registration


def test_a_shard_comes_back_with_its_mod_revision() -> None:
    assert codec.decode_shard(SHARD_KEY, codec.encode_shard(SHARD), 90) == SHARD


def test_a_topic_comes_back() -> None:
    record = TopicRecord(id=TOPIC_ID, partition_count=3, configs={"retention.ms": "1"})
    assert codec.decode_topic("t", codec.encode_topic(record)) == record


def test_the_small_values_come_back() -> None:
    assert codec.decode_controller(codec.encode_controller(1, "h:1"), 9) == ControllerLeader(
        id=1, epoch=9, rpc_address="h:1"
    )
    assert codec.decode_cluster_id(codec.encode_cluster_id("abc")) == "abc"
    assert codec.decode_config(codec.encode_config({"a": "b"})) == {"a": "b"}
    assert codec.decode_next_producer_id(codec.encode_next_producer_id(2000)) == 2000


def test_fields_of_a_newer_version_are_skipped() -> None:
    value = json.loads(codec.encode_partition(PARTITION)) | {"elr": [1], "note": None}
    decoded = codec.decode_partition(PartitionKey(TOPIC_ID, 2), json.dumps(value).encode(), 77)
    assert decoded == PARTITION


def partition_with(**fields: object) -> bytes:
    return json.dumps(json.loads(codec.encode_partition(PARTITION)) | fields).encode()


def decode_partition(value: bytes) -> object:
    return codec.decode_partition(PartitionKey(TOPIC_ID, 2), value, 1)


@pytest.mark.parametrize(
    ("decode", "value", "named"),
    [
        (decode_partition, b"\xff", "not JSON"),
        (decode_partition, b"[1]", "not a JSON object"),
        (decode_partition, partition_with(leader="3"), "leader"),
        (decode_partition, partition_with(leader=True), "leader"),
        (decode_partition, partition_with(isr=None), "isr"),
        (decode_partition, partition_with(replicas=[1, "2"]), "replicas"),
        (decode_partition, partition_with(eligible_leaders=1), "eligible_leaders"),
        (lambda value: codec.decode_registration(RegistrationKey(4), value, 1), b'{"rack":null}', "broker_epoch"),
        (lambda value: codec.decode_topic("flights", value), b'{"partitions":1,"configs":{}}', "flights.id"),
        (lambda value: codec.decode_topic("flights", value), b'{"id":"x"}', "not a UUID"),
        (lambda value: codec.decode_shard(SHARD_KEY, value, 1), b'{"coordinator":1}', "index=7.*coordinator_epoch"),
        (codec.decode_config, b'{"configs":{"a":1}}', "configs.a"),
        (codec.decode_cluster_id, b"{}", "cluster_id"),
    ],
)
def test_a_bad_value_is_refused_by_name(decode: Callable[[bytes], object], value: bytes, named: str) -> None:
    with pytest.raises(BadValue, match=named):
        decode(value)


DECODERS: dict[str, Callable[[bytes], object]] = {
    "cluster_id": codec.decode_cluster_id,
    "config": codec.decode_config,
    "controller": lambda value: codec.decode_controller(value, 1),
    "features": lambda value: codec.decode_features(value, 1),
    "link": lambda value: codec.decode_link(LinkKey("l"), value, 1),
    "member": lambda value: codec.decode_member(MemberKey(Role.BROKER, 4), value, 1),
    "next_producer_id": codec.decode_next_producer_id,
    "partition": decode_partition,
    "recovery": codec.decode_recovery,
    "registration": lambda value: codec.decode_registration(RegistrationKey(4), value, 1),
    "shard": lambda value: codec.decode_shard(SHARD_KEY, value, 1),
    "topic": lambda value: codec.decode_topic("t", value),
}


def test_every_kind_of_value_is_tried() -> None:
    known = {name.removeprefix("decode_") for name in dir(codec) if name.startswith("decode_")}

    assert known == DECODERS.keys()


@pytest.mark.parametrize("kind", DECODERS)
def test_a_value_of_a_later_format_is_refused_as_such(kind: str) -> None:
    with pytest.raises(UnknownFormat, match="format 2"):
        DECODERS[kind](b'{"format":2,"all":"is different"}')


LINK = Link(
    name="from-kafka",
    id=UUID(int=70),
    source_cluster_id="there",
    bootstrap_servers=("a:1", "b:2"),
    settings={"sasl.password": "${env:PASSWORD}"},
    topics=("orders.*",),
    groups=(".*",),
    paused=True,
    bytes_per_second=1000,
    properties={"topics.exclude": "a"},
    promoted_topics=frozenset({"b", "c"}),
    revision=12,
)


@pytest.mark.parametrize("link", [LINK, replace(LINK, paused=False, bytes_per_second=None, topics=())])
def test_a_link_comes_back_and_fields_of_newer_writers_are_passed_over(link: Link) -> None:
    value = codec.encode_link(link)
    assert codec.decode_link(LinkKey("from-kafka"), value, 12) == link
    newer = json.dumps({**json.loads(value), "colour": "red"}).encode()
    assert codec.decode_link(LinkKey("from-kafka"), newer, 12) == link
    older = {name: item for name, item in json.loads(value).items() if name not in ("properties", "promoted_topics")}
    read = codec.decode_link(LinkKey("from-kafka"), json.dumps(older).encode(), 12)
    assert read == replace(link, properties={}, promoted_topics=frozenset())
    assert "from-kafka" in str(LinkKey("from-kafka"))


def test_values_from_before_there_were_links_read_as_of_partitions_and_topics_that_follow_nothing() -> None:
    value = codec.encode_partition(PARTITION)
    assert b"link" not in value
    assert codec.decode_partition(PartitionKey(TOPIC_ID, 2), value, 77).link is None
    record = codec.encode_topic(TopicRecord(id=TOPIC_ID, partition_count=1))
    assert b"origin" not in record
    assert codec.decode_topic("t", record).origin is None


def test_what_follows_a_link_comes_back() -> None:
    linked = replace(PARTITION, link=LINK.id, set_aside_up_to=6)
    assert codec.decode_partition(PartitionKey(TOPIC_ID, 2), codec.encode_partition(linked), 77) == linked
    origin = TopicOrigin(link_id=LINK.id, source_topic="s", source_topic_id=UUID(int=71))
    record = TopicRecord(id=TOPIC_ID, partition_count=1, origin=origin)
    assert codec.decode_topic("t", codec.encode_topic(record)) == record


@pytest.mark.parametrize("damage", [{"id": "x"}, {"bootstrap_servers": "a:1"}, {"topics": [1]}, {"paused": 1}])
def test_a_damaged_link_is_refused_by_name(damage: dict[str, object]) -> None:
    value = json.dumps({**json.loads(codec.encode_link(LINK)), **damage}).encode()
    with pytest.raises(BadValue, match=next(iter(damage))):
        codec.decode_link(LinkKey("from-kafka"), value, 1)
