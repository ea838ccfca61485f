"""confluent-kafka's AdminClient as a `GroupAdminUnderTest`."""

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from kio.schema.errors import ErrorCode

from tests.compat.group_admin_cases import GroupDescription, OffsetAndMetadata
from tests.compat.group_member_program import Partition

DEADLINE_S = 30.0


class ConfluentGroupAdmin:
    """confluent-kafka's admin client; every call waits for its future."""

    def __init__(self, bootstrap: str):
        self._client = AdminClient({"bootstrap.servers": bootstrap})

    def groups(self, *, state: str | None = None, type_: str | None = None) -> dict[str, str]:
        filters: dict[str, Any] = {}
        if state is not None:
            filters["states"] = {ConsumerGroupState[state.upper()]}
        if type_ is not None:
            filters["types"] = {ConsumerGroupType[type_.upper()]}
        found = self._client.list_consumer_groups(request_timeout=DEADLINE_S, **filters).result()
        assert not found.errors, found.errors
        return {each.group_id: each.state.name.title() for each in found.valid}

    def describe(self, group: str) -> GroupDescription | None:
        found = self._client.describe_consumer_groups([group], request_timeout=DEADLINE_S)[group].result()
        if found.state is ConsumerGroupState.DEAD:
            return None
        return GroupDescription(
            state=found.state.name.title(),
            assignor=found.partition_assignor,
            assignments={
                (each.member_id, each.host.removeprefix("/")): frozenset(
                    (at.topic, at.partition) for at in each.assignment.topic_partitions
                )
                for each in found.members
            },
        )

    def offsets(
        self, group: str, partitions: Sequence[Partition] | None = None
    ) -> dict[Partition, OffsetAndMetadata]:
        wanted = None if partitions is None else [TopicPartition(*partition) for partition in partitions]
        request = (
            ConsumerGroupTopicPartitions(group) if wanted is None else ConsumerGroupTopicPartitions(group, wanted)
        )
        found = self._client.list_consumer_group_offsets([request], request_timeout=DEADLINE_S)[group].result()
        return {
            (each.topic, each.partition): (max(each.offset, -1), each.metadata or "")
            for each in found.topic_partitions
        }

    def set_offsets(self, group: str, offsets: Mapping[Partition, OffsetAndMetadata]) -> dict[Partition, ErrorCode]:
        wanted = [TopicPartition(*each, offset, metadata=note) for each, (offset, note) in offsets.items()]
        (future,) = self._client.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, wanted)], request_timeout=DEADLINE_S
        ).values()
        return {
            (each.topic, each.partition): ErrorCode(each.error.code() if each.error else 0)
            for each in future.result().topic_partitions
        }

    def delete_groups(self, groups: Sequence[str]) -> dict[str, ErrorCode]:
        futures = self._client.delete_consumer_groups(list(groups), request_timeout=DEADLINE_S)
        return {group: _outcome(future) for group, future in futures.items()}


def _outcome(future: Any) -> ErrorCode:
    try:
        future.result()
    except KafkaException as exception:
        return ErrorCode(exception.args[0].code())
    return ErrorCode.none
