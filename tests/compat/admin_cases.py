"""What every admin client must be able to do, written once; a client's folder has an `admin.py` for `AdminUnderTest`.

Outcomes are Kafka's error codes, whatever the client wraps them in. The codes expected here are those that Apache
Kafka 4.2 answers.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kio.schema.errors import ErrorCode

from tests.compat.cases import PublishCase, varied_messages
from tests.compat.confluent.client import ConfluentClient
from tests.support.clusters.broker_under_test import KEEP_FOR_EVER
from tests.support.eventually import eventually

NO_SUCH_TOPIC = "no-such-topic"
TOPIC_CONFIG_COUNT_MIN = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """One partition as an admin client describes it."""

    index: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The cluster as an admin client describes it; addresses by broker id."""

    cluster_id: str
    controller_id: int
    brokers: Mapping[int, tuple[str, int]]


class AdminUnderTest(Protocol):
    """What an admin client is wrapped in."""

    def create(
        self,
        topic: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> ErrorCode: ...

    def grow(self, topic: str, partitions: int) -> ErrorCode:
        """Adds partitions until the topic has this many."""

    def delete(self, topic: str) -> ErrorCode: ...

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> ErrorCode:
        """AlterConfigs: these and no others are set from now on."""

    def change_configs(self, topic: str, *, changed: Mapping[str, str], reset: Sequence[str] = ()) -> ErrorCode:
        """IncrementalAlterConfigs: leaves all others as they are."""

    def configs(self, topic: str) -> dict[str, str]:
        """Every config of the topic, defaults included."""

    def delete_records(self, topic: str, partition: int, before_offset: int) -> ErrorCode: ...

    def topics(self) -> set[str]: ...

    def describe(self, topic: str) -> list[PartitionDescription]: ...

    def cluster(self) -> ClusterDescription: ...


def fresh_name() -> str:
    """A topic name that no other test uses."""
    return f"admin-{uuid.uuid4().hex[:12]}"


def check_a_topic_from_creation_to_deletion(admin: AdminUnderTest) -> None:
    """Create, list, describe, grow, delete."""
    topic = fresh_name()
    brokers = admin.cluster().brokers
    assert admin.create(topic, partitions=2) is ErrorCode.none
    eventually(lambda: topic in admin.topics(), f"{topic} is listed")
    described = eventually_described(admin, topic, partitions=2)
    assert [partition.index for partition in described] == [0, 1]
    for partition in described:
        assert partition.leader in brokers
        assert partition.replicas == partition.in_sync == (partition.leader,)
    assert admin.grow(topic, 5) is ErrorCode.none
    assert [partition.index for partition in eventually_described(admin, topic, partitions=5)] == [0, 1, 2, 3, 4]
    assert admin.delete(topic) is ErrorCode.none
    eventually(lambda: topic not in admin.topics(), f"{topic} is no longer listed")


def check_that_validation_alone_creates_nothing(admin: AdminUnderTest) -> None:
    """`validate_only` answers as if, and leaves no topic."""
    topic = fresh_name()
    assert admin.create(topic, validate_only=True) is ErrorCode.none
    assert admin.create(topic) is ErrorCode.none, "validation alone had created the topic"


def check_configs_from_creation_to_reset(admin: AdminUnderTest) -> None:
    """Set at creation, replaced in full, changed one by one, reset to defaults."""
    topic = fresh_name()
    assert admin.create(topic, configs={"retention.ms": "3600000", "cleanup.policy": "compact"}) is ErrorCode.none
    eventually(lambda: topic in admin.topics(), f"{topic} is listed")
    expect_configs(
        admin, topic, {"retention.ms": "3600000", "cleanup.policy": "compact", "segment.bytes": "1073741824"}
    )
    assert len(admin.configs(topic)) >= TOPIC_CONFIG_COUNT_MIN
    assert admin.replace_configs(topic, {"retention.ms": "7200000"}) is ErrorCode.none
    expect_configs(admin, topic, {"retention.ms": "7200000", "cleanup.policy": "delete"})
    assert admin.change_configs(topic, changed={"max.message.bytes": "2000000"}) is ErrorCode.none
    expect_configs(admin, topic, {"retention.ms": "7200000", "max.message.bytes": "2000000"})
    assert admin.change_configs(topic, changed={"segment.ms": "60000"}, reset=["retention.ms"]) is ErrorCode.none
    expect_configs(admin, topic, {"retention.ms": "604800000", "segment.ms": "60000", "max.message.bytes": "2000000"})


def check_deleting_records(admin: AdminUnderTest, bootstrap: str) -> None:
    """Records before an offset go, later ones stay; beyond the end is refused."""
    topic, client = fresh_name(), ConfluentClient()
    assert admin.create(topic, partitions=3, configs=KEEP_FOR_EVER) is ErrorCode.none
    eventually_described(admin, topic, partitions=3)
    messages = varied_messages()
    client.publish(bootstrap, topic, PublishCase(name="records", codec="none", idempotent=True, messages=messages))
    end = client.end_offset(bootstrap, topic, 0)
    assert admin.delete_records(topic, 0, 5) is ErrorCode.none
    assert client.beginning_offset(bootstrap, topic, 0) == 5
    assert client.read(bootstrap, topic, 0, 1)[0].offset == 5
    assert admin.delete_records(topic, 0, end + 1) is ErrorCode.offset_out_of_range
    assert admin.delete_records(topic, 0, end) is ErrorCode.none
    assert client.beginning_offset(bootstrap, topic, 0) == end == client.end_offset(bootstrap, topic, 0)
    assert client.beginning_offset(bootstrap, topic, 1) == 0


def check_the_cluster_description(admin: AdminUnderTest, bootstrap: str) -> None:
    """The broker that the client was pointed at is in it, under an id that the partitions use."""
    cluster = admin.cluster()
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    assert (host, int(port)) in cluster.brokers.values()
    assert cluster.cluster_id
    assert cluster.controller_id in cluster.brokers


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An admin request that a broker refuses; `attempt` is given a topic that exists, with 2 partitions."""

    name: str
    attempt: Callable[[AdminUnderTest, str], ErrorCode]
    code: ErrorCode


REFUSALS = (
    Refusal(
        name="topic exists",
        attempt=lambda admin, topic: admin.create(topic),
        code=ErrorCode.topic_already_exists,
    ),
    Refusal(
        name="invalid name",
        attempt=lambda admin, _: admin.create("not a name"),
        code=ErrorCode.invalid_topic_exception,
    ),
    Refusal(
        name="no partitions",
        attempt=lambda admin, _: admin.create(fresh_name(), partitions=0),
        code=ErrorCode.invalid_partitions,
    ),
    Refusal(
        name="replication factor too high",
        attempt=lambda admin, _: admin.create(fresh_name(), replication_factor=30),
        code=ErrorCode.invalid_replication_factor,
    ),
    Refusal(
        name="replication factor zero",
        attempt=lambda admin, _: admin.create(fresh_name(), replication_factor=0),
        code=ErrorCode.invalid_replication_factor,
    ),
    Refusal(
        name="unknown config at creation",
        attempt=lambda admin, _: admin.create(fresh_name(), configs={"no.such.config": "1"}),
        code=ErrorCode.invalid_config,
    ),
    Refusal(
        name="bad config value at creation",
        attempt=lambda admin, _: admin.create(fresh_name(), configs={"retention.ms": "a week"}),
        code=ErrorCode.invalid_config,
    ),
    Refusal(
        name="unknown config replaced",
        attempt=lambda admin, topic: admin.replace_configs(topic, {"no.such.config": "1"}),
        code=ErrorCode.invalid_config,
    ),
    Refusal(
        name="unknown config changed",
        attempt=lambda admin, topic: admin.change_configs(topic, changed={"no.such.config": "1"}),
        code=ErrorCode.invalid_config,
    ),
    Refusal(
        name="bad config value changed",
        attempt=lambda admin, topic: admin.change_configs(topic, changed={"cleanup.policy": "shred"}),
        code=ErrorCode.invalid_config,
    ),
    Refusal(
        name="configs of an unknown topic",
        attempt=lambda admin, _: admin.change_configs(NO_SUCH_TOPIC, changed={"retention.ms": "1"}),
        code=ErrorCode.unknown_topic_or_partition,
    ),
    Refusal(
        name="fewer partitions",
        attempt=lambda admin, topic: admin.grow(topic, 1),
        code=ErrorCode.invalid_partitions,
    ),
    Refusal(
        name="as many partitions",
        attempt=lambda admin, topic: admin.grow(topic, 2),
        code=ErrorCode.invalid_partitions,
    ),
    Refusal(
        name="partitions for an unknown topic",
        attempt=lambda admin, _: admin.grow(NO_SUCH_TOPIC, 3),
        code=ErrorCode.unknown_topic_or_partition,
    ),
    Refusal(
        name="deleting an unknown topic",
        attempt=lambda admin, _: admin.delete(NO_SUCH_TOPIC),
        code=ErrorCode.unknown_topic_or_partition,
    ),
    Refusal(
        name="deleting records of an unknown topic",
        attempt=lambda admin, _: admin.delete_records(NO_SUCH_TOPIC, 0, 1),
        code=ErrorCode.unknown_topic_or_partition,
    ),
)


def refusal_name(refusal: Refusal) -> str:
    """For pytest's ids."""
    return refusal.name.replace(" ", "-")


def eventually_described(admin: AdminUnderTest, topic: str, *, partitions: int) -> list[PartitionDescription]:
    """The topic's partitions in order, once the brokers have caught up with the controller."""

    def described() -> list[PartitionDescription] | None:
        found = sorted(admin.describe(topic), key=lambda partition: partition.index)
        return found if len(found) == partitions and all(partition.leader >= 0 for partition in found) else None

    found = eventually(described, f"{topic} has {partitions} partitions")
    assert found is not None
    return found


def expect_configs(admin: AdminUnderTest, topic: str, expected: Mapping[str, str]) -> None:
    """Waits until the topic's configs have these values; brokers learn of a change shortly after the answer."""

    def differing() -> dict[str, str]:
        actual = admin.configs(topic)
        return {key: actual.get(key, "(absent)") for key in expected if actual.get(key) != expected[key]}

    eventually(lambda: not differing(), f"{topic} has {expected}, differing in {differing()}")
