"""Requests to the controller and its answers survive the trip through protobuf."""

from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_core.cluster.controller_rpc import controller_messages as messages
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


def test_in_sync_sets_and_what_became_of_them() -> None:
    change = IsrChange(
        topic_id=ID,
        index=3,
        leader_epoch=4,
        partition_epoch=2**40,
        isr=(InSyncReplica(broker_id=2, broker_epoch=2**41), InSyncReplica(broker_id=0, broker_epoch=7)),
    )
    assert messages.isr_change_from_message(messages.isr_change_to_message(change)) == change
    for altered in (AlteredIsr(topic_id=ID, index=0), AlteredIsr(topic_id=ID, index=1, **ERROR)):
        assert messages.altered_isr_from_message(messages.altered_isr_to_message(altered)) == altered


def test_elections_that_were_asked_for() -> None:
    for elected in (ElectedLeader(topic="a", index=0), ElectedLeader(topic="a", index=1, **ERROR)):
        assert messages.elected_leader_from_message(messages.elected_leader_to_message(elected)) == elected


def test_reassignments_and_their_results() -> None:
    for replicas in ((2, 1), (), None):
        reassignment = Reassignment(topic="a", index=1, replicas=replicas)
        message = messages.reassignment_to_message(reassignment)
        assert messages.reassignment_from_message(message) == reassignment
    for altered in (AlteredReassignment(topic="a", index=0), AlteredReassignment(topic="a", index=1, **ERROR)):
        answer = messages.altered_reassignment_to_message(altered)
        assert messages.altered_reassignment_from_message(answer) == altered
