"""What stands in etcd, in words: every kind of key, no secret, whatever the values are."""

from uuid import UUID

import pytest

from ottla_console.views.state_words import TEXT_MAX, StateRow, state_rows, topic_names, with_words
from ottla_core.acls import AclBinding, AclOperation, PatternType, Permission, ResourceKind
from ottla_core.cluster.etcd.key_value import KeyValue
from ottla_core.cluster.state import codec, security_codec
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import (
    BrokerRegistration,
    Endpoint,
    Link,
    Member,
    PartitionState,
    Recovery,
    Role,
    Shard,
)
from ottla_core.cluster.state.security import (
    DelegationToken,
    QuotaEntity,
    QuotaEntityKind,
    ScramCredential,
    ScramMechanism,
)
from ottla_core.topic_partition import TopicPartition

SPACE = KeySpace("ottla")
TOPIC = UUID(int=7)
MARKER = "f00dfeed"


def entry(key: str, value: bytes) -> KeyValue:
    return KeyValue(key=key, value=value, create_revision=3, mod_revision=9)


def told(key: str, value: bytes) -> tuple[str, str]:
    (row,) = state_rows(SPACE, [entry(key, value)], {TOPIC: "flights"})
    assert (row.key, row.revision) == (key.removeprefix("/ottla/ottla/"), 9)
    return row.subject, row.words


def test_the_cluster_is_told() -> None:
    assert told(SPACE.cluster_id, codec.encode_cluster_id("abc")) == ("Cluster id", "abc")
    assert told(SPACE.controller, codec.encode_controller(2, "h:1")) == (
        "Leading controller",
        "controller 2 at h:1, epoch 3",
    )
    assert told(SPACE.features, codec.encode_features({"x": 4}))[1].endswith("x at level 4")
    assert told(SPACE.producer_ids, codec.encode_next_producer_id(500)) == ("Producer ids", "500 is the next")
    recovery = codec.encode_recovery(Recovery(number=1, is_unfinished=True))
    assert told(SPACE.recovery, recovery)[1] == "the state was recovered 1 times, the last time not to the end"


def test_processes_topics_and_partitions_are_told() -> None:
    member = Member(
        role=Role.BROKER,
        id=1,
        epoch=5,
        incarnation=UUID(int=1),
        rpc_address="r:1",
        version="0.1.0",
        endpoints=(Endpoint(listener="PLAIN", host="h", port=9092),),
    )
    assert told(SPACE.member(Role.BROKER, 1), codec.encode_member(member)) == ("Broker 1", "release 0.1.0 at h:9092")
    registration = BrokerRegistration(broker_id=1, broker_epoch=5, rack="east")
    assert told(SPACE.registration(1), codec.encode_registration(registration)) == (
        "Broker 1",
        "0 log directories, rack east, epoch 5",
    )
    topic = codec.encode_topic(codec.TopicRecord(id=TOPIC, partition_count=3, configs={"retention.ms": "5"}))
    assert told(SPACE.topic("flights"), topic) == (
        "Topic flights",
        f"3 partitions, id {TOPIC}; retention.ms = 5",
    )
    assert topic_names(SPACE, [entry(SPACE.topic("flights"), topic), entry(SPACE.topic("x"), b"?")]) == {
        TOPIC: "flights"
    }
    partition = PartitionState(
        topic_id=TOPIC, index=0, replicas=(1, 2), isr=(1,), leader=1, leader_epoch=4, adding=(2,)
    )
    assert told(SPACE.partition(TOPIC, 0), codec.encode_partition(partition)) == (
        "flights partition 0",
        "broker 1 leads, leader epoch 4; replicas 1,2, in sync 1, comes to 2",
    )
    shard = Shard(
        topic_partition=TopicPartition("__consumer_offsets", 2),
        coordinator=1,
        coordinator_epoch=1,
        producer_id=8,
        producer_epoch=0,
    )
    assert told(SPACE.shard("__consumer_offsets", 2), codec.encode_shard(shard)) == (
        "__consumer_offsets partition 2",
        "coordinator 1, as producer 8",
    )


def test_rights_and_quotas_are_told() -> None:
    binding = AclBinding(
        kind=ResourceKind.TOPIC,
        pattern=PatternType.PREFIXED,
        name="fl",
        principal="User:ada",
        host="*",
        operation=AclOperation.READ,
        permission=Permission.ALLOW,
    )
    assert told(SPACE.acl(UUID(int=1)), security_codec.encode_acl(binding)) == (
        "User:ada",
        "allow read on topic fl (prefixed) from host *",
    )
    entity = QuotaEntity(((QuotaEntityKind.USER, None),))
    quotas = security_codec.encode_quotas({"producer_byte_rate": 5.0})
    assert told(SPACE.client_quota(entity), quotas) == ("user (default)", "producer_byte_rate = 5")


def test_no_secret_is_told() -> None:
    secret = MARKER.encode()
    credential = ScramCredential(salt=secret, stored_key=secret, server_key=secret, iterations=4096)
    token = DelegationToken(
        token_id="t",
        owner="User:ada",
        requester="User:ada",
        renewers=(),
        issued_ms=1,
        expires_ms=2,
        max_lifetime_ms=3,
    )
    link = Link(
        name="west",
        id=UUID(int=1),
        source_cluster_id="s",
        bootstrap_servers=("w:1",),
        settings={"sasl.password": MARKER},
        topics=("o.*",),
    )
    rows = [
        told(
            SPACE.scram_credential(ScramMechanism.SHA_256, "ada"), security_codec.encode_scram_credential(credential)
        ),
        told(SPACE.delegation_token("t"), security_codec.encode_delegation_token(token)),
        told(SPACE.link("west"), codec.encode_link(link)),
        told(SPACE.broker_config(None), codec.encode_config({"ssl.keystore.key": MARKER})),
        told(SPACE.broker_config(3), codec.encode_config({})),
    ]
    assert rows == [
        ("User ada", "a password for SCRAM-SHA-256, 4,096 iterations"),
        ("Owner User:ada", "a delegation token"),
        ("Link west", "follows w:1; topics o.*; set are sasl.password (values are not shown)"),
        ("All brokers", "settings; set are ssl.keystore.key (values are not shown)"),
        ("Broker 3", "settings"),
    ]


@pytest.mark.parametrize("value", [b"", b"{}", b"[1]", b"\xff", b'{"configs": 7}', MARKER.encode()])
def test_a_value_that_cannot_be_read_is_told_as_such_and_not_shown(value: bytes) -> None:
    for key in (
        SPACE.topic("t"),
        SPACE.partition(TOPIC, 0),
        SPACE.broker_config(1),
        SPACE.acl(TOPIC),
        SPACE.features,
    ):
        assert told(key, value) == ("", "its value cannot be read by this release")
    assert told(f"{SPACE.prefix}later/kind", value) == ("", "of a kind that this release does not know")


def test_other_clusters_are_left_out_and_long_values_cut() -> None:
    assert state_rows(SPACE, [entry("/ottla/other/id", codec.encode_cluster_id("x"))], {}) == []
    _, words = told(SPACE.group_config("g"), codec.encode_config({"a": "x" * 5000}))
    assert len(words) == TEXT_MAX + 1


def test_keys_are_searched() -> None:
    rows = [StateRow(key="topics/Flights", subject="Topic Flights", words="3 partitions", revision=1)]
    assert with_words(rows, "FLIGHTS partitions") == rows
    assert with_words(rows, "absent") == []
