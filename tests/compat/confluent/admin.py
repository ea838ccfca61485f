"""confluent-kafka's AdminClient as an `AdminUnderTest`."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kio.schema.errors import ErrorCode

from tests.compat.admin_cases import ClusterDescription, PartitionDescription

DEADLINE_S = 30.0
Key = TypeVar("Key")


class ConfluentAdmin:
    """confluent-kafka's admin client; every call waits for its one future."""

    def __init__(self, bootstrap: str):
        self._client = AdminClient({"bootstrap.servers": bootstrap})

    def create(
        self,
        topic: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> ErrorCode:
        wanted = NewTopic(topic, partitions, replication_factor, config=dict(configs or {}))
        return _outcome(self._client.create_topics([wanted], validate_only=validate_only))

    def grow(self, topic: str, partitions: int) -> ErrorCode:
        return _outcome(self._client.create_partitions([NewPartitions(topic, partitions)]))

    def delete(self, topic: str) -> ErrorCode:
        return _outcome(self._client.delete_topics([topic]))

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> ErrorCode:
        return _outcome(self._client.alter_configs([ConfigResource(ResourceType.TOPIC, topic, dict(configs))]))

    def change_configs(self, topic: str, *, changed: Mapping[str, str], reset: Sequence[str] = ()) -> ErrorCode:
        entries = [
            *(ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in changed.items()),
            *(ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in reset),
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        return _outcome(self._client.incremental_alter_configs([resource]))

    def configs(self, topic: str) -> dict[str, str]:
        described = self._client.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
        return {name: entry.value for name, entry in _only(described).result(DEADLINE_S).items()}

    def delete_records(self, topic: str, partition: int, before_offset: int) -> ErrorCode:
        return _outcome(self._client.delete_records([TopicPartition(topic, partition, before_offset)]))

    def topics(self) -> set[str]:
        return set(self._client.list_topics(timeout=DEADLINE_S).topics)

    def describe(self, topic: str) -> list[PartitionDescription]:
        described = _only(self._client.describe_topics(TopicCollection([topic]))).result(DEADLINE_S)
        return [
            PartitionDescription(
                index=partition.id,
                leader=partition.leader.id if partition.leader else -1,
                replicas=tuple(node.id for node in partition.replicas),
                in_sync=tuple(node.id for node in partition.isr),
            )
            for partition in described.partitions
        ]

    def cluster(self) -> ClusterDescription:
        described = self._client.describe_cluster().result(DEADLINE_S)
        return ClusterDescription(
            cluster_id=described.cluster_id,
            controller_id=described.controller.id,
            brokers={node.id: (node.host, node.port) for node in described.nodes},
        )


def _outcome(futures: Mapping[Any, "Future[Any]"]) -> ErrorCode:
    try:
        _only(futures).result(DEADLINE_S)
    except KafkaException as refusal:
        code = refusal.args[0].code()
        # librdkafka looks for the leader first and says in its own words that there is none.
        return ErrorCode.unknown_topic_or_partition if code == KafkaError._NOENT else ErrorCode(code)
    return ErrorCode.none


def _only(futures: Mapping[Key, "Future[Any]"]) -> "Future[Any]":
    (future,) = futures.values()
    return future
