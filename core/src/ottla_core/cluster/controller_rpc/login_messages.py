"""The values of `login_api`, each with the protobuf message that carries it to the controller or back. Pure."""

from collections.abc import Iterable
from typing import Final

from kio.schema.errors import ErrorCode

from ottla_core.cluster.controller_rpc.login_api import (
    AlteredUser,
    NewToken,
    ScramDeletion,
    ScramUpsertion,
    TokenLifetime,
    TokenTimes,
)
from ottla_core.cluster.controller_rpc.message_pair import MessagePair
from ottla_core.cluster.state.security import ScramCredential
from ottla_core.errors import CodedError
from ottla_proto.gen.ottla import logins_pb2 as pb

DELETION: Final = MessagePair(ScramDeletion, pb.ScramDeletion)
NEW_TOKEN: Final = MessagePair(NewToken, pb.CreateDelegationTokenRequest)
TOKEN_LIFETIME: Final = MessagePair(TokenLifetime, pb.AlterDelegationTokenRequest)
TOKEN_TIMES: Final = MessagePair(TokenTimes, pb.DelegationTokenResponse, except_for=["revision"])
_CREDENTIAL: Final = MessagePair(ScramCredential, pb.ScramUpsertion, except_for=["user", "mechanism"])


def alterations_to_message(
    deletions: Iterable[ScramDeletion], upsertions: Iterable[ScramUpsertion]
) -> pb.AlterScramCredentialsRequest:
    """Return the message of changes to users."""
    request = pb.AlterScramCredentialsRequest(deletions=DELETION.to_messages(deletions))
    for each in upsertions:
        message = _CREDENTIAL.to_message(each.credential)
        message.user, message.mechanism = each.user, each.mechanism
        request.upsertions.append(message)
    return request


def upsertion_from_message(message: pb.ScramUpsertion) -> ScramUpsertion:
    """Return the credential to write."""
    return ScramUpsertion(message.user, message.mechanism, _CREDENTIAL.from_message(message))


def times_to_message(times: TokenTimes, revision: int) -> pb.DelegationTokenResponse:
    """Return the message of a token's times, and of the revision that contains them."""
    message = TOKEN_TIMES.to_message(times)
    message.revision = revision
    return message


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
