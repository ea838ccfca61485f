"""The values of `login_api` as the protobuf messages of the controller's service, and back. Pure."""

from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from ottla_core.cluster.controller_rpc.login_api import (
    AlteredUser,
    NewToken,
    ScramDeletion,
    ScramUpsertion,
    TokenLifetime,
    TokenTimes,
)
from ottla_core.cluster.state.security import ScramCredential
from ottla_core.errors import CodedError
from ottla_proto.gen.ottla import logins_pb2 as pb


def alterations_to_message(
    deletions: Sequence[ScramDeletion], upsertions: Sequence[ScramUpsertion]
) -> pb.AlterScramCredentialsRequest:
    """Return the message of changes to users."""
    return pb.AlterScramCredentialsRequest(
        deletions=[pb.ScramDeletion(user=each.user, mechanism=each.mechanism) for each in deletions],
        upsertions=[
            pb.ScramUpsertion(
                user=each.user,
                mechanism=each.mechanism,
                iterations=each.credential.iterations,
                salt=each.credential.salt,
                stored_key=each.credential.stored_key,
                server_key=each.credential.server_key,
            )
            for each in upsertions
        ],
    )


def deletions_from_message(message: pb.AlterScramCredentialsRequest) -> list[ScramDeletion]:
    """Return the credentials to delete."""
    return [ScramDeletion(each.user, each.mechanism) for each in message.deletions]


def upsertions_from_message(message: pb.AlterScramCredentialsRequest) -> list[ScramUpsertion]:
    """Return the credentials to write."""
    return [
        ScramUpsertion(
            each.user,
            each.mechanism,
            ScramCredential(
                salt=each.salt,
                stored_key=each.stored_key,
                server_key=each.server_key,
                iterations=each.iterations,
            ),
        )
        for each in message.upsertions
    ]


def altered_to_message(user: AlteredUser) -> pb.AlteredUser:
    """Return the message that says how the change of a user ended."""
    if user.error is None:
        return pb.AlteredUser(user=user.user)
    return pb.AlteredUser(user=user.user, error_code=user.error.code.value, error_message=user.error.message)


def altered_from_message(message: pb.AlteredUser) -> AlteredUser:
    """Return how the change of a user ended."""
    if not message.error_code:
        return AlteredUser(message.user)
    return AlteredUser(message.user, CodedError(ErrorCode(message.error_code), message.error_message))


def new_token_to_message(token: NewToken) -> pb.CreateDelegationTokenRequest:
    """Return the message of a token to create."""
    return pb.CreateDelegationTokenRequest(
        token_id=token.token_id,
        owner=token.owner,
        requester=token.requester,
        renewers=token.renewers,
        max_lifetime_ms=token.max_lifetime_ms,
        lifetime_ms=token.lifetime_ms,
    )


def new_token_from_message(message: pb.CreateDelegationTokenRequest) -> NewToken:
    """Return the token to create."""
    return NewToken(
        token_id=message.token_id,
        owner=message.owner,
        requester=message.requester,
        renewers=tuple(message.renewers),
        max_lifetime_ms=message.max_lifetime_ms,
        lifetime_ms=message.lifetime_ms,
    )


def lifetime_to_message(change: TokenLifetime) -> pb.AlterDelegationTokenRequest:
    """Return the message of a token's new end."""
    return pb.AlterDelegationTokenRequest(
        token_id=change.token_id,
        requester=change.requester,
        lifetime_ms=change.lifetime_ms,
        renews=change.renews,
    )


def lifetime_from_message(message: pb.AlterDelegationTokenRequest) -> TokenLifetime:
    """Return a token's new end."""
    return TokenLifetime(
        token_id=message.token_id,
        requester=message.requester,
        lifetime_ms=message.lifetime_ms,
        renews=message.renews,
    )


def times_to_message(times: TokenTimes, revision: int) -> pb.DelegationTokenResponse:
    """Return the message of a token's times."""
    return pb.DelegationTokenResponse(
        issued_ms=times.issued_ms, expires_ms=times.expires_ms, max_ms=times.max_ms, revision=revision
    )


def times_from_message(message: pb.DelegationTokenResponse) -> TokenTimes:
    """Return a token's times."""
    return TokenTimes(issued_ms=message.issued_ms, expires_ms=message.expires_ms, max_ms=message.max_ms)
