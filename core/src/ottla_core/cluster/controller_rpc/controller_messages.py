"""The values of `controller_api` as the protobuf messages of the controller's service, and back. Pure."""

from collections.abc import Iterable, Mapping
from typing import Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_core.cluster.controller_rpc.controller_api import (
    AlteredIsr,
    AlteredReassignment,
    AlteredResource,
    ConfigChange,
    ConfigOperation,
    ConfigResourceChange,
    CreatedTopic,
    DeletedTopic,
    ElectedLeader,
    GrownTopic,
    InSyncReplica,
    IsrChange,
    NewPartitions,
    NewTopic,
    PartitionAssignment,
    Reassignment,
    TopicReference,
)
from ottla_core.kafka_uuid import ZERO_UUID
from ottla_proto.gen.ottla import controller_pb2 as pb


def new_topic_to_message(topic: NewTopic) -> pb.NewTopic:
    """Return the message of a topic to create."""
    return pb.NewTopic(
        name=topic.name,
        topic_id=topic.topic_id.bytes,
        partition_count=topic.partition_count,
        replication_factor=topic.replication_factor,
        assignments=[pb.PartitionAssignment(index=a.index, broker_ids=a.broker_ids) for a in topic.assignments],
        configs=_configs_to_messages(topic.configs),
    )


def new_topic_from_message(message: pb.NewTopic) -> NewTopic:
    """Return the topic to create."""
    return NewTopic(
        name=message.name,
        topic_id=UUID(bytes=message.topic_id),
        partition_count=message.partition_count,
        replication_factor=message.replication_factor,
        assignments=tuple(
            PartitionAssignment(index=a.index, broker_ids=tuple(a.broker_ids)) for a in message.assignments
        ),
        configs={c.name: c.value if c.HasField("value") else None for c in message.configs},
    )


def created_topic_to_message(topic: CreatedTopic) -> pb.CreatedTopic:
    """Return the message that says how a creation ended."""
    return pb.CreatedTopic(
        name=topic.name,
        error=_error_to_message(topic),
        topic_id=topic.topic_id.bytes,
        partition_count=topic.partition_count,
        replication_factor=topic.replication_factor,
        configs=_configs_to_messages(topic.configs),
    )


def created_topic_from_message(message: pb.CreatedTopic) -> CreatedTopic:
    """Return how a creation ended."""
    return CreatedTopic(
        name=message.name,
        error_code=ErrorCode(message.error.code),
        error_message=message.error.message or None,
        topic_id=UUID(bytes=message.topic_id),
        partition_count=message.partition_count,
        replication_factor=message.replication_factor,
        configs={config.name: config.value for config in message.configs},
    )


def topic_reference_to_message(topic: TopicReference) -> pb.TopicReference:
    """Return the message that names a topic."""
    if topic.topic_id is not None:
        return pb.TopicReference(topic_id=topic.topic_id.bytes)
    return pb.TopicReference(name=topic.name or "")


def topic_reference_from_message(message: pb.TopicReference) -> TopicReference:
    """Return which topic is meant."""
    if message.WhichOneof("reference") == "topic_id":
        return TopicReference(topic_id=UUID(bytes=message.topic_id))
    return TopicReference(name=message.name)


def deleted_topic_to_message(topic: DeletedTopic) -> pb.DeletedTopic:
    """Return the message that says how a deletion ended."""
    return pb.DeletedTopic(name=topic.name, topic_id=topic.topic_id.bytes, error=_error_to_message(topic))


def deleted_topic_from_message(message: pb.DeletedTopic) -> DeletedTopic:
    """Return how a deletion ended."""
    return DeletedTopic(
        name=message.name if message.HasField("name") else None,
        topic_id=UUID(bytes=message.topic_id) if message.topic_id else ZERO_UUID,
        error_code=ErrorCode(message.error.code),
        error_message=message.error.message or None,
    )


def new_partitions_to_message(topic: NewPartitions) -> pb.NewPartitions:
    """Return the message of a topic to grow."""
    return pb.NewPartitions(
        topic=topic.topic,
        total_count=topic.total_count,
        assignments=[pb.PartitionAssignment(broker_ids=broker_ids) for broker_ids in topic.assignments],
    )


def new_partitions_from_message(message: pb.NewPartitions) -> NewPartitions:
    """Return the topic to grow."""
    return NewPartitions(
        topic=message.topic,
        total_count=message.total_count,
        assignments=tuple(tuple(assignment.broker_ids) for assignment in message.assignments),
    )


def grown_topic_to_message(topic: GrownTopic) -> pb.GrownTopic:
    """Return the message that says how growing a topic ended."""
    return pb.GrownTopic(topic=topic.topic, error=_error_to_message(topic))


def grown_topic_from_message(message: pb.GrownTopic) -> GrownTopic:
    """Return how growing a topic ended."""
    return GrownTopic(
        topic=message.topic,
        error_code=ErrorCode(message.error.code),
        error_message=message.error.message or None,
    )


def resource_change_to_message(resource: ConfigResourceChange) -> pb.ConfigResourceChange:
    """Return the message of changes to one resource."""
    return pb.ConfigResourceChange(
        resource_type=resource.type,
        resource_name=resource.name,
        changes=[
            pb.ConfigChange(
                name=change.name,
                operation=pb.ConfigChange.Operation.Name(change.operation),
                value=change.value,
            )
            for change in resource.changes
        ],
    )


def resource_change_from_message(message: pb.ConfigResourceChange) -> ConfigResourceChange:
    """Return the changes to one resource."""
    return ConfigResourceChange(
        type=message.resource_type,
        name=message.resource_name,
        changes=tuple(
            ConfigChange(
                name=change.name,
                operation=ConfigOperation(change.operation),
                value=change.value if change.HasField("value") else None,
            )
            for change in message.changes
        ),
    )


def altered_resource_to_message(resource: AlteredResource) -> pb.AlteredResource:
    """Return the message that says how changing one resource ended."""
    return pb.AlteredResource(
        resource_type=resource.type, resource_name=resource.name, error=_error_to_message(resource)
    )


def altered_resource_from_message(message: pb.AlteredResource) -> AlteredResource:
    """Return how changing one resource ended."""
    return AlteredResource(
        type=message.resource_type,
        name=message.resource_name,
        error_code=ErrorCode(message.error.code),
        error_message=message.error.message or None,
    )


def isr_change_to_message(change: IsrChange) -> pb.IsrChange:
    """Return the message of an in-sync set that a leader proposes."""
    return pb.IsrChange(
        topic_id=change.topic_id.bytes,
        index=change.index,
        leader_epoch=change.leader_epoch,
        partition_epoch=change.partition_epoch,
        isr=[pb.InSyncReplica(broker_id=r.broker_id, broker_epoch=r.broker_epoch) for r in change.isr],
        lost_log=change.lost_log,
        failed_log=change.failed_log,
        longest_log=change.longest_log,
    )


def isr_change_from_message(message: pb.IsrChange) -> IsrChange:
    """Return the in-sync set that a leader proposes."""
    return IsrChange(
        topic_id=UUID(bytes=message.topic_id),
        index=message.index,
        leader_epoch=message.leader_epoch,
        partition_epoch=message.partition_epoch,
        isr=tuple(InSyncReplica(broker_id=r.broker_id, broker_epoch=r.broker_epoch) for r in message.isr),
        lost_log=message.lost_log,
        failed_log=message.failed_log,
        longest_log=message.longest_log,
    )


def altered_isr_to_message(altered: AlteredIsr) -> pb.AlteredIsr:
    """Return the message that says how a proposal of an in-sync set ended."""
    return pb.AlteredIsr(topic_id=altered.topic_id.bytes, index=altered.index, error=_error_to_message(altered))


def altered_isr_from_message(message: pb.AlteredIsr) -> AlteredIsr:
    """Return how a proposal of an in-sync set ended."""
    return AlteredIsr(
        topic_id=UUID(bytes=message.topic_id),
        index=message.index,
        error_code=ErrorCode(message.error.code),
        error_message=message.error.message or None,
    )


def elected_leader_to_message(elected: ElectedLeader) -> pb.ElectedLeader:
    """Return the message that says how a requested election ended."""
    return pb.ElectedLeader(topic=elected.topic, index=elected.index, error=_error_to_message(elected))


def elected_leader_from_message(message: pb.ElectedLeader) -> ElectedLeader:
    """Return how a requested election ended."""
    return ElectedLeader(
        topic=message.topic,
        index=message.index,
        error_code=ErrorCode(message.error.code),
        error_message=message.error.message or None,
    )


def reassignment_to_message(reassignment: Reassignment) -> pb.Reassignment:
    """Return the message of the replicas that a partition shall have."""
    replicas = reassignment.replicas
    return pb.Reassignment(
        topic=reassignment.topic,
        index=reassignment.index,
        replicas=None if replicas is None else pb.Reassignment.Replicas(broker_ids=replicas),
    )


def reassignment_from_message(message: pb.Reassignment) -> Reassignment:
    """Return the replicas that a partition shall have."""
    return Reassignment(
        topic=message.topic,
        index=message.index,
        replicas=tuple(message.replicas.broker_ids) if message.HasField("replicas") else None,
    )


def altered_reassignment_to_message(altered: AlteredReassignment) -> pb.AlteredReassignment:
    """Return the message that says whether a reassignment has begun or was cancelled."""
    return pb.AlteredReassignment(topic=altered.topic, index=altered.index, error=_error_to_message(altered))


def altered_reassignment_from_message(message: pb.AlteredReassignment) -> AlteredReassignment:
    """Return whether a reassignment has begun or was cancelled."""
    return AlteredReassignment(
        topic=message.topic,
        index=message.index,
        error_code=ErrorCode(message.error.code),
        error_message=message.error.message or None,
    )


def _configs_to_messages(configs: Mapping[str, str | None] | Mapping[str, str]) -> Iterable[pb.Config]:
    return [pb.Config(name=name, value=value) for name, value in configs.items()]


class _Result(Protocol):
    """What the result of every item has."""

    @property
    def error_code(self) -> ErrorCode: ...

    @property
    def error_message(self) -> str | None: ...


def _error_to_message(item: _Result) -> pb.ItemError:
    return pb.ItemError(code=item.error_code.value, message=item.error_message)
