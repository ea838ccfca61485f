"""The part of the controller's gRPC service that is about access control lists; see `service.py`."""
# ruff: noqa: N802 - gRPC's generated code sets the names of the methods

from typing import TYPE_CHECKING, Any

from grpc import aio

from ottla_controller.login_service import LoginService
from ottla_core.cluster.controller_rpc import acl_messages as messages
from ottla_proto.gen.ottla import acls_pb2 as pb

if TYPE_CHECKING:  # generic in the stubs only
    Context = aio.ServicerContext[Any, Any]


class AclService(LoginService):
    """Answers while this process leads, and refuses with NOT_CONTROLLER otherwise."""

    async def AlterAcls(self, request: pb.AlterAclsRequest, context: "Context") -> pb.AlterAclsResponse:
        """Change access control lists."""
        deleted_by, revision = await self._active().acls.alter(
            [messages.binding_from_message(each) for each in request.creations],
            [messages.filter_from_message(each) for each in request.deletions],
            timeout_s=context.time_remaining(),
        )
        return pb.AlterAclsResponse(
            deleted=[
                pb.DeletedAcls(bindings=[messages.binding_to_message(each) for each in found]) for found in deleted_by
            ],
            revision=revision,
        )
