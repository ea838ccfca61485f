"""The part of the controller's gRPC service that is about clients' quotas; see `service.py`."""
# ruff: noqa: N802 - gRPC's generated code sets the names of the methods

from typing import TYPE_CHECKING, Any

from grpc import aio

from ottla_controller.acl_service import AclService
from ottla_core.cluster.controller_rpc import quota_messages as messages
from ottla_proto.gen.ottla import quotas_pb2 as pb

if TYPE_CHECKING:  # generic in the stubs only
    Context = aio.ServicerContext[Any, Any]


class QuotaService(AclService):
    """Answers while this process leads, and refuses with NOT_CONTROLLER otherwise."""

    async def AlterQuotas(self, request: pb.AlterQuotasRequest, context: "Context") -> pb.AlterQuotasResponse:
        """Set and remove quotas of clients."""
        results, revision = await self._active().quotas.alter(
            [messages.alteration_from_message(each) for each in request.alterations],
            validate_only=request.validate_only,
            timeout_s=context.time_remaining(),
        )
        return pb.AlterQuotasResponse(
            entities=[messages.altered_to_message(parts, error) for parts, error in results.items()],
            revision=revision,
        )
