"""The part of the controller's gRPC service that is about clients' logins; see `service.py`."""
# ruff: noqa: N802 - gRPC's generated code sets the names of the methods

from typing import TYPE_CHECKING, Any

from grpc import aio

from ottla_controller.link_service import LinkService
from ottla_core.cluster.controller_rpc import login_messages as messages
from ottla_proto.gen.ottla import logins_pb2 as pb

if TYPE_CHECKING:  # generic in the stubs only
    Context = aio.ServicerContext[Any, Any]


class LoginService(LinkService):
    """Answers while this process leads, and refuses with NOT_CONTROLLER otherwise."""

    async def AlterScramCredentials(
        self, request: pb.AlterScramCredentialsRequest, context: "Context"
    ) -> pb.AlterScramCredentialsResponse:
        """Change users of SCRAM."""
        results, revision = await self._active().logins.alter_users(
            messages.deletions_from_message(request),
            messages.upsertions_from_message(request),
            timeout_s=context.time_remaining(),
        )
        return pb.AlterScramCredentialsResponse(
            users=[messages.altered_to_message(result) for result in results], revision=revision
        )

    async def CreateDelegationToken(
        self, request: pb.CreateDelegationTokenRequest, context: "Context"
    ) -> pb.DelegationTokenResponse:
        """Create a delegation token."""
        asked = messages.new_token_from_message(request)
        times, revision = await self._active().logins.create_token(asked, timeout_s=context.time_remaining())
        return messages.times_to_message(times, revision)

    async def AlterDelegationToken(
        self, request: pb.AlterDelegationTokenRequest, context: "Context"
    ) -> pb.DelegationTokenResponse:
        """Renew a delegation token, or have it end."""
        asked = messages.lifetime_from_message(request)
        times, revision = await self._active().logins.alter_token(asked, timeout_s=context.time_remaining())
        return messages.times_to_message(times, revision)
