"""Deleting groups, and giving them other offsets; coordinators look again at what a group must be like for it.

After a change that was not answered in time, the client must be closed (`coordinator_answers`), or it sends it later.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla_operations.errors import OperationError
from ottla_operations.groups.coordinator_answers import CoordinatorAnswers
from ottla_operations.groups.inspection import Partition
from ottla_operations.kafka_access import REQUEST_TIMEOUT_S, describe_error, plain_errors
from ottla_sdk.kafka.coordinator_requests import TIMEOUT_MAX_S

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


def delete_group(client: "AdminClient", group: str, bootstrap: str) -> None:
    """Delete a group with its offsets.

    Raises:
        OperationError: it has members, is not there, or the cluster refuses.
    """
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415

    reasons = {
        KafkaError.NON_EMPTY_GROUP: f"group {group} has members; stop them first",
        KafkaError.GROUP_ID_NOT_FOUND: f"there is no group {group}",
    }
    with plain_errors(bootstrap, f"group {group}"):
        try:
            answers = CoordinatorAnswers(client, REQUEST_TIMEOUT_S)
            answers.of(client.delete_consumer_groups([group], request_timeout=TIMEOUT_MAX_S)[group])
        except KafkaException as exception:
            if reason := reasons.get(exception.args[0].code()):
                raise OperationError(reason) from None
            raise


def commit_offsets(
    client: "AdminClient", group: str, offsets: Sequence[tuple[Partition, int]], bootstrap: str
) -> dict[Partition, str]:
    """Commit offsets for a group without members, and return what was refused, in words, by partition.

    Raises:
        OperationError: the cluster refuses all of it, or does not answer.
    """
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, TopicPartition  # noqa: PLC0415

    wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets]
    refused = {KafkaError.UNKNOWN_MEMBER_ID: f"group {group} has members; stop them first"}
    with plain_errors(bootstrap, f"offsets of group {group}"):
        answers = CoordinatorAnswers(client, REQUEST_TIMEOUT_S)
        futures = client.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, wanted)], request_timeout=TIMEOUT_MAX_S
        )
        answered = answers.of(futures[group]).topic_partitions
    return {
        (each.topic, each.partition): refused.get(each.error.code()) or describe_error(each.error, bootstrap)
        for each in answered
        if each.error is not None
    }
