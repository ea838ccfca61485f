"""Requests to the controller and its answers survive the trip through protobuf."""

from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_core.cluster import controller_messages as messages
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

ID = UUID(int=77)
ERROR = {"error_code": ErrorCode.invalid_config, "error_message": "nicht gültig"}


def test_topics_to_create_and_their_results() -> None:
    new = NewTopic(
        name="a",
        partition_count=2,
        replication_factor=-1,
        assignments=(PartitionAssignment(index=0, broker_ids=(2, 1)),),
        configs={"a": "1", "b": None, "c": ""},
        topic_id=ID,
    )
    assert messages.new_topic_from_message(messages.new_topic_to_message(new)) == new
    for created in (
        CreatedTopic(name="a", topic_id=ID, partition_count=2, replication_factor=1, configs={"a": "1"}),
        CreatedTopic(name="a", **ERROR),
    ):
        assert messages.created_topic_from_message(messages.created_topic_to_message(created)) == created


def test_topics_to_delete_and_their_results() -> None:
    for reference in (TopicReference(name="a"), TopicReference(topic_id=ID)):
        assert messages.topic_reference_from_message(messages.topic_reference_to_message(reference)) == reference
    for deleted in (DeletedTopic(name="a", topic_id=ID), DeletedTopic(name=None, topic_id=ID, **ERROR)):
        assert messages.deleted_topic_from_message(messages.deleted_topic_to_message(deleted)) == deleted


def test_topics_to_grow_and_their_results() -> None:
    new = NewPartitions(topic="a", total_count=4, assignments=((1, 2), (2, 1)))
    assert messages.new_partitions_from_message(messages.new_partitions_to_message(new)) == new
    for grown in (GrownTopic(topic="a"), GrownTopic(topic="a", **ERROR)):
        assert messages.grown_topic_from_message(messages.grown_topic_to_message(grown)) == grown


def test_settings_to_change_and_their_results() -> None:
    change = ConfigResourceChange(
        type=2,
        name="a",
        changes=tuple(
            ConfigChange(name="x", operation=operation, value=None if operation == 1 else "v")
            for operation in ConfigOperation
        ),
    )
    assert messages.resource_change_from_message(messages.resource_change_to_message(change)) == change
    for altered in (AlteredResource(type=4, name=""), AlteredResource(type=2, name="a", **ERROR)):
        message = messages.altered_resource_to_message(altered)
        assert messages.altered_resource_from_message(message) == altered
