"""AlterUserScramCredentials (key 51): set passwords of users of SCRAM, and delete users (KIP-554).

A client sends the salted password, by which one can log in. What is passed on and kept is made of it here.
"""

from kio.schema.alter_user_scram_credentials.v0.request import ScramCredentialUpsertion
from kio.schema.alter_user_scram_credentials.v0.response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kio.schema.errors import ErrorCode

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.long_responses import respond_in_thread
from ottla_broker.outcome import Parts
from ottla_core.cluster.controller_rpc import login_messages as messages
from ottla_core.cluster.controller_rpc.login_api import AlteredUser, ScramDeletion, ScramUpsertion
from ottla_core.cluster.state.security import ScramCredential, ScramMechanism
from ottla_core.errors import CodedError, KafkaError
from ottla_core.scram import credential_of
from ottla_core.slices import in_slices


async def handle(broker: Broker, request: Request) -> Parts:
    """Have the controller change users; each succeeds or fails by itself."""
    message = request.newest()
    deletions = [ScramDeletion(each.name, each.mechanism) for each in message.deletions]
    # Each takes some hashes.
    upsertions = await in_slices(
        ScramUpsertion(each.name, each.mechanism, _credential(each)) for each in message.upsertions
    )
    try:
        altered = await broker.controller.forward(
            "AlterScramCredentials",
            messages.alterations_to_message(deletions, upsertions),
            timeout_s=broker.config.request_timeout_ms / 1000,
        )
        results = await in_slices(messages.altered_from_message(each) for each in altered.users)
    except KafkaError as refused:
        error = CodedError(refused.code, refused.message)
        users = dict.fromkeys([*(each.user for each in deletions), *(each.user for each in upsertions)])
        results = tuple(AlteredUser(user, error) for user in users)
    told = await in_slices(
        AlterUserScramCredentialsResult(
            user=each.user,
            error_code=ErrorCode.none if each.error is None else each.error.code,
            error_message=None if each.error is None else each.error.message,
        )
        for each in results
    )
    response = AlterUserScramCredentialsResponse(throttle_time=NO_THROTTLE, results=told)
    return await respond_in_thread(request, response, len(told))


def _credential(upsertion: ScramCredentialUpsertion) -> ScramCredential:
    """Return what is kept; of an unknown mechanism nothing, as the controller refuses it."""
    salt = bytes(upsertion.salt)
    if upsertion.mechanism not in {*ScramMechanism}:
        return ScramCredential(salt=salt, stored_key=b"", server_key=b"", iterations=upsertion.iterations)
    mechanism = ScramMechanism(upsertion.mechanism)
    return credential_of(mechanism, bytes(upsertion.salted_password), salt, upsertion.iterations)
