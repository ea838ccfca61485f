"""Creating, growing, emptying and deleting topics by librdkafka's admin client."""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ottla_operations.kafka_access import REQUEST_TIMEOUT_S, plain_errors

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

BROKERS_DEFAULT = -1
"""Stands for as many partitions, or replicas, as the brokers' settings say."""


def create_topic(
    client: "AdminClient",
    bootstrap: str,
    name: str,
    *,
    partitions: int = BROKERS_DEFAULT,
    replication_factor: int = BROKERS_DEFAULT,
    settings: Mapping[str, str] | None = None,
) -> None:
    """Create a topic.

    Raises:
        OperationError: the cluster refuses, or does not answer.
    """
    from confluent_kafka.admin import NewTopic  # noqa: PLC0415

    with plain_errors(bootstrap, f"topic {name}"):
        topic = NewTopic(
            name, num_partitions=partitions, replication_factor=replication_factor, config=dict(settings or {})
        )
        _result(client.create_topics([topic], request_timeout=REQUEST_TIMEOUT_S))


def add_partitions(client: "AdminClient", bootstrap: str, name: str, partitions: int) -> None:
    """Give a topic more partitions, so many in all; errors as with `create_topic`."""
    from confluent_kafka.admin import NewPartitions  # noqa: PLC0415

    with plain_errors(bootstrap, f"topic {name}"):
        _result(client.create_partitions([NewPartitions(name, partitions)], request_timeout=REQUEST_TIMEOUT_S))


def empty_topic(client: "AdminClient", bootstrap: str, name: str, partitions: int) -> None:
    """Delete all records that a topic's partitions have now; its offsets go on. Errors as with `create_topic`.

    Compacted topics keep the newest record of each key, so their records can only be deleted key by key.
    """
    from confluent_kafka import OFFSET_END, TopicPartition  # noqa: PLC0415

    with plain_errors(bootstrap, f"topic {name}"):
        ends = [TopicPartition(name, each, OFFSET_END) for each in range(partitions)]
        futures = client.delete_records(ends, request_timeout=REQUEST_TIMEOUT_S)
        for future in futures.values():
            future.result()


def delete_topic(client: "AdminClient", bootstrap: str, name: str) -> None:
    """Delete a topic; errors as with `create_topic`."""
    with plain_errors(bootstrap, f"topic {name}"):
        _result(client.delete_topics([name], request_timeout=REQUEST_TIMEOUT_S))


def _result(futures: Mapping[str, "Future[Any]"]) -> None:
    for future in futures.values():
        future.result()
