"""The controller's gRPC service: messages to values, the active controller's answer, values to messages.

Each request brings its caller's deadline: what has not begun by then is not done.
"""
# ruff: noqa: N802 - gRPC's generated code sets the names of the methods

from typing import TYPE_CHECKING, Any

from grpc import aio

from ottla_controller.quota_service import QuotaService
from ottla_core.cluster.controller_rpc import controller_messages as messages
from ottla_core.cluster.controller_rpc.controller_api import ElectionType, FeatureUpdate
from ottla_core.topic_partition import TopicPartition
from ottla_proto.gen.ottla import controller_pb2 as pb

if TYPE_CHECKING:  # generic in the stubs only
    Context = aio.ServicerContext[Any, Any]


class ControllerService(QuotaService):
    """Answers while this process leads, and refuses with NOT_CONTROLLER otherwise."""

    async def CreateTopics(self, request: pb.CreateTopicsRequest, context: "Context") -> pb.CreateTopicsResponse:
        """Create topics."""
        results, revision = await self._active().create_topics(
            [messages.new_topic_from_message(topic) for topic in request.topics],
            validate_only=request.validate_only,
            timeout_s=context.time_remaining(),
        )
        return pb.CreateTopicsResponse(
            topics=[messages.created_topic_to_message(result) for result in results], revision=revision
        )

    async def DeleteTopics(self, request: pb.DeleteTopicsRequest, context: "Context") -> pb.DeleteTopicsResponse:
        """Delete topics."""
        results, revision = await self._active().delete_topics(
            [messages.topic_reference_from_message(topic) for topic in request.topics],
            timeout_s=context.time_remaining(),
        )
        return pb.DeleteTopicsResponse(
            topics=[messages.deleted_topic_to_message(result) for result in results], revision=revision
        )

    async def CreatePartitions(
        self, request: pb.CreatePartitionsRequest, context: "Context"
    ) -> pb.CreatePartitionsResponse:
        """Add partitions to topics."""
        results, revision = await self._active().create_partitions(
            [messages.new_partitions_from_message(topic) for topic in request.topics],
            validate_only=request.validate_only,
            timeout_s=context.time_remaining(),
        )
        return pb.CreatePartitionsResponse(
            topics=[messages.grown_topic_to_message(result) for result in results], revision=revision
        )

    async def AlterConfigs(self, request: pb.AlterConfigsRequest, context: "Context") -> pb.AlterConfigsResponse:
        """Change settings of topics and brokers."""
        results, revision = await self._active().alter_configs(
            [messages.resource_change_from_message(resource) for resource in request.resources],
            replace_all=request.replace_all,
            validate_only=request.validate_only,
            timeout_s=context.time_remaining(),
        )
        return pb.AlterConfigsResponse(
            resources=[messages.altered_resource_to_message(result) for result in results], revision=revision
        )

    async def AllocateProducerIds(
        self, request: pb.AllocateProducerIdsRequest, context: "Context"
    ) -> pb.AllocateProducerIdsResponse:
        """Hand out a block of producer ids."""
        block = await self._active().allocate_producer_ids(
            request.broker_id, request.broker_epoch, timeout_s=context.time_remaining()
        )
        return pb.AllocateProducerIdsResponse(first_producer_id=block.first, length=block.length)

    async def AlterPartitions(
        self, request: pb.AlterPartitionsRequest, context: "Context"
    ) -> pb.AlterPartitionsResponse:
        """Judge the in-sync sets that a leader proposes."""
        results, revision = await self._active().replicas.alter_partitions(
            request.broker_id,
            request.broker_epoch,
            [messages.isr_change_from_message(change) for change in request.changes],
            timeout_s=context.time_remaining(),
        )
        return pb.AlterPartitionsResponse(
            partitions=[messages.altered_isr_to_message(result) for result in results], revision=revision
        )

    async def ElectLeaders(self, request: pb.ElectLeadersRequest, context: "Context") -> pb.ElectLeadersResponse:
        """Hold elections."""
        partitions = [TopicPartition(partition.topic, partition.index) for partition in request.partitions]
        results, revision = await self._active().replicas.hold_elections(
            ElectionType(request.type),
            None if request.all_partitions else partitions,
            timeout_s=context.time_remaining(),
        )
        return pb.ElectLeadersResponse(
            partitions=[messages.elected_leader_to_message(result) for result in results], revision=revision
        )

    async def AlterReassignments(
        self, request: pb.AlterReassignmentsRequest, context: "Context"
    ) -> pb.AlterReassignmentsResponse:
        """Begin, change or cancel reassignments."""
        results, revision = await self._active().replicas.alter_reassignments(
            [messages.reassignment_from_message(reassignment) for reassignment in request.reassignments],
            allow_replication_factor_change=request.allow_replication_factor_change,
            timeout_s=context.time_remaining(),
        )
        return pb.AlterReassignmentsResponse(
            reassignments=[messages.altered_reassignment_to_message(result) for result in results], revision=revision
        )

    async def UpdateFeatures(
        self, request: pb.UpdateFeaturesRequest, context: "Context"
    ) -> pb.UpdateFeaturesResponse:
        """Update levels of features."""
        revision = await self._active().features.update(
            [FeatureUpdate(feature=u.feature, level=u.level, type=u.upgrade_type) for u in request.updates],
            validate_only=request.validate_only,
            timeout_s=context.time_remaining(),
        )
        return pb.UpdateFeaturesResponse(revision=revision)

    async def UnregisterBroker(
        self, request: pb.UnregisterBrokerRequest, context: "Context"
    ) -> pb.UnregisterBrokerResponse:
        """Forget a broker that has left for good."""
        revision = await self._active().replicas.unregister_broker(
            request.broker_id, timeout_s=context.time_remaining()
        )
        return pb.UnregisterBrokerResponse(revision=revision)
