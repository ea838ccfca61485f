"""The key space: what is written is read back, and foreign keys are nobody's."""

from uuid import UUID

import pytest

from ottla_core.cluster.state.keys import (
    BrokerConfigKey,
    ClientMetricsConfigKey,
    ClusterIdKey,
    ControllerKey,
    GroupConfigKey,
    Key,
    KeySpace,
    MemberKey,
    PartitionKey,
    ProducerIdsKey,
    RegistrationKey,
    ShardKey,
    TopicKey,
)
from ottla_core.cluster.state.model import Role

SPACE = KeySpace("test")
TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")

KEYS: list[tuple[str, str, Key]] = [
    (SPACE.cluster_id, "/ottla/test/id", ClusterIdKey()),
    (SPACE.controller, "/ottla/test/controller", ControllerKey()),
    (SPACE.producer_ids, "/ottla/test/producer-ids", ProducerIdsKey()),
    (SPACE.member(Role.BROKER, 3), "/ottla/test/members/broker/3", MemberKey(Role.BROKER, 3)),
    (SPACE.registration(3), "/ottla/test/registrations/3", RegistrationKey(3)),
    (SPACE.topic("a.b_c"), "/ottla/test/topics/a.b_c", TopicKey("a.b_c")),
    (
        SPACE.partition(TOPIC_ID, 7),
        "/ottla/test/partitions/00112233-4455-6677-8899-aabbccddeeff/7",
        PartitionKey(TOPIC_ID, 7),
    ),
    (
        SPACE.member(Role.GROUP_COORDINATOR, 1),
        "/ottla/test/members/group-coordinator/1",
        MemberKey(Role.GROUP_COORDINATOR, 1),
    ),
    (
        SPACE.shard("__consumer_offsets", 49),
        "/ottla/test/shards/__consumer_offsets/49",
        ShardKey("__consumer_offsets", 49),
    ),
    (SPACE.broker_config(2), "/ottla/test/configs/brokers/2", BrokerConfigKey(2)),
    (SPACE.broker_config(None), "/ottla/test/configs/brokers/default", BrokerConfigKey(None)),
    (SPACE.group_config("a/b c"), "/ottla/test/configs/groups/a%2Fb%20c", GroupConfigKey("a/b c")),
    (
        SPACE.client_metrics_config("a/b c"),
        "/ottla/test/configs/client-metrics/a%2Fb%20c",
        ClientMetricsConfigKey("a/b c"),
    ),
]


@pytest.mark.parametrize(("written", "text", "meaning"), KEYS)
def test_every_key_is_read_back_as_what_it_was_written_for(written: str, text: str, meaning: Key) -> None:
    assert written == text
    assert SPACE.parse(written) == meaning


@pytest.mark.parametrize(
    "foreign",
    [
        "/ottla/testing/controller",
        "/ottla/other/topics/a",
        "/ottla/test/",
        "/ottla/test/shards/x",
        "/ottla/test/shards/x/one",
        "/ottla/test/members/janitor/1",
        "/ottla/test/members/broker/one",
        "/ottla/test/partitions/not-a-uuid/0",
        "/ottla/test/topics/a/b",
    ],
)
def test_keys_of_others_and_of_newer_versions_are_unknown(foreign: str) -> None:
    assert SPACE.parse(foreign) is None
