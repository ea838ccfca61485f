"""The controller's gRPC service: messages to values, the active controller's answer, values to messages.

Each request brings its caller's deadline: what has not begun by then is not done. The fields of requests and answers
stand in `controller.proto` and the files that it imports.
"""
# ruff: noqa: N802 - gRPC's generated code sets the names of the methods

from typing import TYPE_CHECKING, Any

from grpc import aio

from ottla_controller.active_controller import ActiveController
from ottla_controller.leadership_loop import LeadershipLoop
from ottla_core.cluster.controller_rpc import acl_messages, link_messages, login_messages, quota_messages
from ottla_core.cluster.controller_rpc import controller_messages as messages
from ottla_core.cluster.controller_rpc.controller_api import ElectionType
from ottla_core.cluster.controller_rpc.message_pair import uuid_from_bytes
from ottla_core.errors import NotController
from ottla_core.topic_partition import TopicPartition
from ottla_proto.gen.ottla import acls_pb2, links_pb2, logins_pb2, quotas_pb2
from ottla_proto.gen.ottla import controller_pb2 as pb
from ottla_proto.gen.ottla.controller_pb2_grpc import ControllerServicer

if TYPE_CHECKING:  # generic in the stubs only
    Context = aio.ServicerContext[Any, Any]


class ControllerService(ControllerServicer):
    """Answers while this process leads, and refuses with NOT_CONTROLLER otherwise."""

    def __init__(self, leadership: LeadershipLoop) -> None:
        self._leadership = leadership

    def _active(self) -> ActiveController:
        active = self._leadership.active
        if active is None:
            raise NotController("this controller does not lead")
        return active

    async def CreateTopics(self, request: pb.CreateTopicsRequest, context: "Context") -> pb.CreateTopicsResponse:
        """Create topics."""
        wanted = messages.NEW_TOPIC.from_messages(request.topics)
        results, revision = await self._active().create_topics(
            wanted, validate_only=request.validate_only, timeout_s=context.time_remaining()
        )
        return pb.CreateTopicsResponse(topics=messages.CREATED_TOPIC.to_messages(results), revision=revision)

    async def DeleteTopics(self, request: pb.DeleteTopicsRequest, context: "Context") -> pb.DeleteTopicsResponse:
        """Delete topics."""
        wanted = messages.TOPIC_REFERENCE.from_messages(request.topics)
        results, revision = await self._active().delete_topics(wanted, timeout_s=context.time_remaining())
        return pb.DeleteTopicsResponse(topics=messages.DELETED_TOPIC.to_messages(results), revision=revision)

    async def CreatePartitions(
        self, request: pb.CreatePartitionsRequest, context: "Context"
    ) -> pb.CreatePartitionsResponse:
        """Add partitions to topics."""
        wanted = messages.NEW_PARTITIONS.from_messages(request.topics)
        results, revision = await self._active().create_partitions(
            wanted, validate_only=request.validate_only, timeout_s=context.time_remaining()
        )
        return pb.CreatePartitionsResponse(topics=messages.GROWN_TOPIC.to_messages(results), revision=revision)

    async def AlterConfigs(self, request: pb.AlterConfigsRequest, context: "Context") -> pb.AlterConfigsResponse:
        """Change settings of topics and brokers."""
        results, revision = await self._active().alter_configs(
            messages.RESOURCE_CHANGE.from_messages(request.resources),
            replace_all=request.replace_all,
            validate_only=request.validate_only,
            timeout_s=context.time_remaining(),
        )
        return pb.AlterConfigsResponse(resources=messages.ALTERED_RESOURCE.to_messages(results), revision=revision)

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
        changes = messages.ISR_CHANGE.from_messages(request.changes)
        results, revision = await self._active().replicas.alter_partitions(
            request.broker_id, request.broker_epoch, changes, timeout_s=context.time_remaining()
        )
        return pb.AlterPartitionsResponse(partitions=messages.ALTERED_ISR.to_messages(results), revision=revision)

    async def ElectLeaders(self, request: pb.ElectLeadersRequest, context: "Context") -> pb.ElectLeadersResponse:
        """Hold elections."""
        partitions = [TopicPartition(partition.topic, partition.index) for partition in request.partitions]
        results, revision = await self._active().replicas.hold_elections(
            ElectionType(request.type),
            None if request.all_partitions else partitions,
            timeout_s=context.time_remaining(),
        )
        return pb.ElectLeadersResponse(partitions=messages.ELECTED_LEADER.to_messages(results), revision=revision)

    async def AlterReassignments(
        self, request: pb.AlterReassignmentsRequest, context: "Context"
    ) -> pb.AlterReassignmentsResponse:
        """Begin, change or cancel reassignments."""
        results, revision = await self._active().replicas.alter_reassignments(
            messages.REASSIGNMENT.from_messages(request.reassignments),
            allow_replication_factor_change=request.allow_replication_factor_change,
            timeout_s=context.time_remaining(),
        )
        return pb.AlterReassignmentsResponse(
            reassignments=messages.ALTERED_REASSIGNMENT.to_messages(results), revision=revision
        )

    async def UpdateFeatures(
        self, request: pb.UpdateFeaturesRequest, context: "Context"
    ) -> pb.UpdateFeaturesResponse:
        """Update levels of features."""
        updates = messages.FEATURE_UPDATE.from_messages(request.updates)
        revision = await self._active().features.update(
            updates, validate_only=request.validate_only, timeout_s=context.time_remaining()
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

    async def CreateLink(
        self, request: links_pb2.CreateLinkRequest, context: "Context"
    ) -> links_pb2.CreateLinkResponse:
        """Create a link."""
        wanted = link_messages.NEW_LINK.from_message(request)
        link, revision = await self._active().links.create(
            wanted, validate_only=request.validate_only, timeout_s=context.time_remaining()
        )
        return links_pb2.CreateLinkResponse(link=link_messages.LINK.to_message(link), revision=revision)

    async def AlterLink(self, request: links_pb2.AlterLinkRequest, context: "Context") -> links_pb2.AlterLinkResponse:
        """Change a link."""
        wanted = link_messages.LINK_CHANGE.from_message(request)
        link, revision = await self._active().links.alter(wanted, timeout_s=context.time_remaining())
        return links_pb2.AlterLinkResponse(link=link_messages.LINK.to_message(link), revision=revision)

    async def DeleteLink(
        self, request: links_pb2.DeleteLinkRequest, context: "Context"
    ) -> links_pb2.DeleteLinkResponse:
        """Forget a link."""
        revision = await self._active().links.delete(request.name, timeout_s=context.time_remaining())
        return links_pb2.DeleteLinkResponse(revision=revision)

    async def CreateLinkedTopics(
        self, request: links_pb2.CreateLinkedTopicsRequest, context: "Context"
    ) -> links_pb2.CreateLinkedTopicsResponse:
        """Create topics that follow those of a source."""
        links = self._active().links
        create = links.follow_existing_topics if request.existing else links.create_topics
        wanted = link_messages.NEW_LINKED_TOPIC.from_messages(request.topics)
        results, revision = await create(request.link, wanted, timeout_s=context.time_remaining())
        return links_pb2.CreateLinkedTopicsResponse(
            topics=link_messages.LINKED_TOPIC_RESULT.to_messages(results), revision=revision
        )

    async def AddLinkedPartitions(
        self, request: links_pb2.AddLinkedPartitionsRequest, context: "Context"
    ) -> links_pb2.AddLinkedPartitionsResponse:
        """Give linked topics the partitions that their sources have."""
        wanted = link_messages.MORE_PARTITIONS.from_messages(request.topics)
        results, revision = await self._active().links.add_partitions(wanted, timeout_s=context.time_remaining())
        return links_pb2.AddLinkedPartitionsResponse(
            topics=link_messages.LINKED_TOPIC_RESULT.to_messages(results), revision=revision
        )

    async def KeepLink(self, request: links_pb2.KeepLinkRequest, context: "Context") -> links_pb2.KeepLinkResponse:
        """Bring linked topics in step with what a link's keeper has found."""
        results, revision = await self._active().links.keep(
            uuid_from_bytes(request.link_id, "link"),
            request.broker_id,
            request.broker_epoch,
            link_messages.NEW_LINKED_TOPIC.from_messages(request.topics),
            timeout_s=context.time_remaining(),
        )
        return links_pb2.KeepLinkResponse(
            topics=link_messages.LINKED_TOPIC_RESULT.to_messages(results), revision=revision
        )

    async def RaiseLeaderEpochs(
        self, request: links_pb2.RaiseLeaderEpochsRequest, context: "Context"
    ) -> links_pb2.RaiseLeaderEpochsResponse:
        """Raise leader epochs to those of the source."""
        raises = link_messages.LEADER_EPOCH_RAISE.from_messages(request.raises)
        revision = await self._active().links.raise_leader_epochs(
            request.broker_id, request.broker_epoch, raises, timeout_s=context.time_remaining()
        )
        return links_pb2.RaiseLeaderEpochsResponse(revision=revision)

    async def PromoteLinked(self, request: links_pb2.PromoteRequest, context: "Context") -> links_pb2.PromoteResponse:
        """Have topics follow no longer."""
        results, revision = await self._active().links.promote(
            request.link, request.topics, timeout_s=context.time_remaining()
        )
        return links_pb2.PromoteResponse(
            partitions=link_messages.PROMOTED_PARTITION.to_messages(results), revision=revision
        )

    async def AlterScramCredentials(
        self, request: logins_pb2.AlterScramCredentialsRequest, context: "Context"
    ) -> logins_pb2.AlterScramCredentialsResponse:
        """Change users of SCRAM."""
        results, revision = await self._active().logins.alter_users(
            login_messages.DELETION.from_messages(request.deletions),
            [login_messages.upsertion_from_message(each) for each in request.upsertions],
            timeout_s=context.time_remaining(),
        )
        return logins_pb2.AlterScramCredentialsResponse(
            users=[login_messages.altered_to_message(result) for result in results], revision=revision
        )

    async def CreateDelegationToken(
        self, request: logins_pb2.CreateDelegationTokenRequest, context: "Context"
    ) -> logins_pb2.DelegationTokenResponse:
        """Create a delegation token."""
        wanted = login_messages.NEW_TOKEN.from_message(request)
        times, revision = await self._active().logins.create_token(wanted, timeout_s=context.time_remaining())
        return login_messages.times_to_message(times, revision)

    async def AlterDelegationToken(
        self, request: logins_pb2.AlterDelegationTokenRequest, context: "Context"
    ) -> logins_pb2.DelegationTokenResponse:
        """Renew a delegation token, or have it end."""
        wanted = login_messages.TOKEN_LIFETIME.from_message(request)
        times, revision = await self._active().logins.alter_token(wanted, timeout_s=context.time_remaining())
        return login_messages.times_to_message(times, revision)

    async def AlterAcls(self, request: acls_pb2.AlterAclsRequest, context: "Context") -> acls_pb2.AlterAclsResponse:
        """Change access control lists."""
        deleted_by, revision = await self._active().acls.alter(
            [acl_messages.binding_from_message(each) for each in request.creations],
            [acl_messages.filter_from_message(each) for each in request.deletions],
            timeout_s=context.time_remaining(),
        )
        deleted = [
            acls_pb2.DeletedAcls(bindings=[acl_messages.binding_to_message(each) for each in found])
            for found in deleted_by
        ]
        return acls_pb2.AlterAclsResponse(deleted=deleted, revision=revision)

    async def AlterQuotas(
        self, request: quotas_pb2.AlterQuotasRequest, context: "Context"
    ) -> quotas_pb2.AlterQuotasResponse:
        """Set and remove quotas of clients."""
        results, revision = await self._active().quotas.alter(
            [quota_messages.alteration_from_message(each) for each in request.alterations],
            validate_only=request.validate_only,
            timeout_s=context.time_remaining(),
        )
        entities = [quota_messages.altered_to_message(parts, error) for parts, error in results.items()]
        return quotas_pb2.AlterQuotasResponse(entities=entities, revision=revision)
