"""The part of the controller's gRPC service that is about links; see `service.py`."""
# ruff: noqa: N802 - gRPC's generated code sets the names of the methods

from typing import TYPE_CHECKING, Any

from grpc import aio

from ottla_controller.active_controller import ActiveController
from ottla_controller.leadership_loop import LeadershipLoop
from ottla_core.cluster.controller_rpc import link_messages as messages
from ottla_core.errors import NotController
from ottla_proto.gen.ottla import links_pb2 as pb
from ottla_proto.gen.ottla.controller_pb2_grpc import ControllerServicer

if TYPE_CHECKING:  # generic in the stubs only
    Context = aio.ServicerContext[Any, Any]


class LinkService(ControllerServicer):
    """Answers while this process leads, and refuses with NOT_CONTROLLER otherwise."""

    def __init__(self, leadership: LeadershipLoop) -> None:
        self._leadership = leadership

    async def CreateLink(self, request: pb.CreateLinkRequest, context: "Context") -> pb.CreateLinkResponse:
        """Create a link."""
        link, revision = await self._active().links.create(
            messages.new_link_from_message(request),
            validate_only=request.validate_only,
            timeout_s=context.time_remaining(),
        )
        return pb.CreateLinkResponse(link=messages.link_to_message(link), revision=revision)

    async def AlterLink(self, request: pb.AlterLinkRequest, context: "Context") -> pb.AlterLinkResponse:
        """Change a link."""
        link, revision = await self._active().links.alter(
            messages.link_change_from_message(request), timeout_s=context.time_remaining()
        )
        return pb.AlterLinkResponse(link=messages.link_to_message(link), revision=revision)

    async def DeleteLink(self, request: pb.DeleteLinkRequest, context: "Context") -> pb.DeleteLinkResponse:
        """Forget a link."""
        revision = await self._active().links.delete(request.name, timeout_s=context.time_remaining())
        return pb.DeleteLinkResponse(revision=revision)

    async def CreateLinkedTopics(
        self, request: pb.CreateLinkedTopicsRequest, context: "Context"
    ) -> pb.CreateLinkedTopicsResponse:
        """Create topics that follow those of a source."""
        controller = self._active().links
        make = controller.follow_existing_topics if request.existing else controller.create_topics
        results, revision = await make(
            request.link,
            [messages.new_linked_topic_from_message(topic) for topic in request.topics],
            timeout_s=context.time_remaining(),
        )
        return pb.CreateLinkedTopicsResponse(
            topics=[messages.result_to_message(result) for result in results], revision=revision
        )

    async def AddLinkedPartitions(
        self, request: pb.AddLinkedPartitionsRequest, context: "Context"
    ) -> pb.AddLinkedPartitionsResponse:
        """Give linked topics the partitions that their sources have."""
        results, revision = await self._active().links.add_partitions(
            [messages.more_partitions_from_message(topic) for topic in request.topics],
            timeout_s=context.time_remaining(),
        )
        return pb.AddLinkedPartitionsResponse(
            topics=[messages.result_to_message(result) for result in results], revision=revision
        )

    async def KeepLink(self, request: pb.KeepLinkRequest, context: "Context") -> pb.KeepLinkResponse:
        """Bring linked topics in step with what a link's keeper has found."""
        results, revision = await self._active().links.keep(
            messages.uuid_from(request.link_id, "link"),
            request.broker_id,
            request.broker_epoch,
            [messages.new_linked_topic_from_message(each) for each in request.topics],
            timeout_s=context.time_remaining(),
        )
        return pb.KeepLinkResponse(topics=[messages.result_to_message(each) for each in results], revision=revision)

    async def RaiseLeaderEpochs(
        self, request: pb.RaiseLeaderEpochsRequest, context: "Context"
    ) -> pb.RaiseLeaderEpochsResponse:
        """Raise leader epochs to those of the source."""
        revision = await self._active().links.raise_leader_epochs(
            request.broker_id,
            request.broker_epoch,
            [messages.raise_from_message(each) for each in request.raises],
            timeout_s=context.time_remaining(),
        )
        return pb.RaiseLeaderEpochsResponse(revision=revision)

    async def PromoteLinked(self, request: pb.PromoteRequest, context: "Context") -> pb.PromoteResponse:
        """Have topics follow no longer."""
        results, revision = await self._active().links.promote(
            request.link, request.topics, timeout_s=context.time_remaining()
        )
        return pb.PromoteResponse(
            partitions=[messages.promoted_to_message(result) for result in results], revision=revision
        )

    def _active(self) -> ActiveController:
        active = self._leadership.active
        if active is None:
            raise NotController("this controller does not lead")
        return active
