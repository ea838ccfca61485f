"""kafka-python's KafkaAdminClient as an `AdminUnderTest`.

Altering configs answers with a text per resource, `OK` or `[Error 40] …`, from which the code is read.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType
from kafka.errors import BrokerResponseError
from kio.schema.errors import ErrorCode

from tests.compat.admin_cases import ClusterDescription, PartitionDescription


class KafkaPythonAdmin:
    """kafka-python's admin client."""

    def __init__(self, bootstrap: str):
        self._client = KafkaAdminClient(bootstrap_servers=bootstrap)

    def close(self) -> None:
        self._client.close()

    def create(
        self,
        topic: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> ErrorCode:
        wanted = {
            "num_partitions": partitions,
            "replication_factor": replication_factor,
            "configs": dict(configs or {}),
        }
        return _outcome(lambda: self._client.create_topics({topic: wanted}, validate_only=validate_only))

    def grow(self, topic: str, partitions: int) -> ErrorCode:
        return _outcome(lambda: self._client.create_partitions({topic: partitions}))

    def delete(self, topic: str) -> ErrorCode:
        return _outcome(lambda: self._client.delete_topics([topic]))

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> ErrorCode:
        # The client itself would add every other changed config to a full replacement; a request of its own does not.
        request = ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))
        alter = self._client._send_alter_configs_requests
        return _altered(self._client._manager.run(alter, [request], False, False), topic)

    def change_configs(self, topic: str, *, changed: Mapping[str, str], reset: Sequence[str] = ()) -> ErrorCode:
        operations: dict[str, tuple[Any, str | None]] = {
            key: (AlterConfigOp.SET, value) for key, value in changed.items()
        }
        operations |= dict.fromkeys(reset, (AlterConfigOp.DELETE, None))
        request = ConfigResource(ConfigResourceType.TOPIC, topic, operations)
        answer = self._client.alter_configs([request], raise_on_unknown=False, incremental=True)
        return _altered(answer, topic)

    def configs(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        described = self._client.describe_configs([resource], config_filter="all")
        return {name: config["value"] for name, config in described["topic"][topic].items()}

    def delete_records(self, topic: str, partition: int, before_offset: int) -> ErrorCode:
        return _outcome(lambda: self._client.delete_records({TopicPartition(topic, partition): before_offset}))

    def topics(self) -> set[str]:
        return set(self._client.list_topics())

    def describe(self, topic: str) -> list[PartitionDescription]:
        (described,) = self._client.describe_topics([topic])
        return [
            PartitionDescription(
                index=partition["partition_index"],
                leader=partition["leader_id"],
                replicas=tuple(partition["replica_nodes"]),
                in_sync=tuple(partition["isr_nodes"]),
            )
            for partition in described["partitions"]
        ]

    def cluster(self) -> ClusterDescription:
        described = self._client.describe_cluster()
        return ClusterDescription(
            cluster_id=described["cluster_id"],
            controller_id=described["controller_id"],
            brokers={broker["broker_id"]: (broker["host"], broker["port"]) for broker in described["brokers"]},
        )

    def log_directories(self) -> list[dict[str, Any]]:
        """Every broker's log directories with the partitions in them."""
        answers: list[dict[str, Any]] = self._client.describe_log_dirs()
        return [directory for answer in answers for directory in answer["log_dirs"]]


def _outcome(attempt: Callable[[], object]) -> ErrorCode:
    try:
        attempt()
    except BrokerResponseError as refusal:
        return ErrorCode(refusal.errno)
    return ErrorCode.none


def _altered(answer: Mapping[str, Mapping[str, str]], topic: str) -> ErrorCode:
    text = answer["topic"][topic]
    if text == "OK":
        return ErrorCode.none
    found = re.search(r"\[Error (-?\d+)\]", text)
    assert found, text
    return ErrorCode(int(found.group(1)))
