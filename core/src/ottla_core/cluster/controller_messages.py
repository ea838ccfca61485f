"""The values of `controller_api` as the protobuf messages of the controller's service, and back; pure."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_core.cluster.controller_api import (
    AlteredResource,
    ConfigChange,
    ConfigOperation,
    ConfigResourceChange,
    CreatedTopic,
    DeletedTopic,
    GrownTopic,
    NewPartitions,
    NewTopic,
    PartitionAssignment,
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


def _configs_to_messages(configs: Mapping[str, str | None] | Mapping[str, str]) -> Iterable[pb.Config]:
    return [pb.Config(name=name, value=value) for name, value in configs.items()]


def _error_to_message(item: CreatedTopic | DeletedTopic | GrownTopic | AlteredResource) -> pb.ItemError:
    return pb.ItemError(code=item.error_code.value, message=item.error_message)
