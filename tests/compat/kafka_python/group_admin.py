"""kafka-python's KafkaAdminClient as a `GroupAdminUnderTest`; it can also delete offsets and remove members."""

from collections.abc import Mapping, Sequence

import kafka.errors
from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition
from kafka.admin import MemberToRemove
from kio.schema.errors import ErrorCode

from tests.compat import group_admin_cases
from tests.compat.group_admin_cases import GroupDescription
from tests.compat.group_member_program import Partition


class KafkaPythonGroupAdmin:
    """kafka-python's admin client."""

    def __init__(self, bootstrap: str):
        self._client = KafkaAdminClient(bootstrap_servers=bootstrap)

    def close(self) -> None:
        self._client.close()

    def groups(self, *, state: str | None = None, type_: str | None = None) -> dict[str, str]:
        found = self._client.list_groups(
            states_filter=None if state is None else [state], types_filter=None if type_ is None else [type_]
        )
        return {each["group_id"]: each["group_state"] for each in found}

    def describe(self, group: str) -> GroupDescription | None:
        found = self._client.describe_groups([group])[group]
        if found["error"] is not None:
            assert "GroupIdNotFound" in found["error"] or "[Error 69]" in found["error"], found
            return None
        return GroupDescription(
            state=found["group_state"],
            assignor=found["protocol_data"],
            assignments={
                (member["member_id"], member["client_host"].removeprefix("/")): frozenset(
                    (topic["topic"], partition)
                    for topic in member["member_assignment"]["assigned_partitions"]
                    for partition in topic["partitions"]
                )
                for member in found["members"]
            },
        )

    def offsets(
        self, group: str, partitions: Sequence[Partition] | None = None
    ) -> dict[Partition, group_admin_cases.OffsetAndMetadata]:
        wanted = None if partitions is None else [TopicPartition(*partition) for partition in partitions]
        found = self._client.list_group_offsets({group: wanted})[group]
        return {(each.topic, each.partition): (at.offset, at.metadata or "") for each, at in found.items()}

    def set_offsets(
        self, group: str, offsets: Mapping[Partition, group_admin_cases.OffsetAndMetadata]
    ) -> dict[Partition, ErrorCode]:
        wanted = {
            TopicPartition(*each): OffsetAndMetadata(offset, note, -1) for each, (offset, note) in offsets.items()
        }
        return _codes(self._client.alter_group_offsets(group, wanted))

    def delete_groups(self, groups: Sequence[str]) -> dict[str, ErrorCode]:
        found = self._client.delete_groups(list(groups))
        return {
            group: ErrorCode.none if name == "OK" else ErrorCode(getattr(kafka.errors, name).errno)
            for group, name in found.items()
        }

    def delete_offsets(self, group: str, partitions: Sequence[Partition]) -> dict[Partition, ErrorCode] | ErrorCode:
        """The outcome of each partition, or the one that the whole request had."""
        wanted = [TopicPartition(*partition) for partition in partitions]
        try:
            return _codes(self._client.delete_group_offsets(group, wanted))
        except kafka.errors.KafkaError as error:
            return ErrorCode(error.errno)

    def remove_members(self, group: str, instance_ids: Sequence[str]) -> dict[str, ErrorCode]:
        """Removes static members; the outcome of each."""
        wanted = [MemberToRemove(group_instance_id=instance_id) for instance_id in instance_ids]
        found = self._client.remove_group_members(group, wanted)
        return {instance_id: ErrorCode(error.errno) for instance_id, error in found.items()}


def _codes(found: Mapping[TopicPartition, type[kafka.errors.KafkaError]]) -> dict[Partition, ErrorCode]:
    return {(each.topic, each.partition): ErrorCode(error.errno) for each, error in found.items()}
