"""DescribeUserScramCredentials (key 50): which users of SCRAM there are (KIP-554); nothing of their passwords."""

from collections import Counter

from kio.schema.describe_user_scram_credentials.v0.response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i32

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.long_responses import respond_in_thread
from ottla_broker.outcome import Outcome, Parts
from ottla_broker.sasl.credentials import Credentials
from ottla_core.cluster.state.security import ScramMechanism
from ottla_core.scram import NOBODY
from ottla_core.slices import in_slices, started


def handle(broker: Broker, request: Request) -> Outcome:
    """Answer with the mechanisms and iterations of the users that are named, or of all."""
    return started(_handle(broker, request))


async def _handle(broker: Broker, request: Request) -> Parts:
    known = broker.state.security.scram_credentials
    named = request.newest().users
    if named:
        counts: dict[str, int] = Counter(each.name for each in named)
    else:
        counts = dict.fromkeys((user for _, user in known if user != NOBODY), 1)
    results = await in_slices(_described(user, count, known) for user, count in counts.items())
    response = DescribeUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None, results=results
    )
    return await respond_in_thread(request, response, len(results))


def _described(user: str, count: int, known: Credentials) -> DescribeUserScramCredentialsResult:
    infos = tuple(
        CredentialInfo(mechanism=i8(mechanism), iterations=i32(known[mechanism, user].iterations))
        for mechanism in ScramMechanism
        if user != NOBODY and (mechanism, user) in known
    )
    error, reason = ErrorCode.none, None
    if count > 1:
        error, reason = (
            ErrorCode.duplicate_resource,
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}",
        )
    elif not infos:
        error, reason = (
            ErrorCode.resource_not_found,
            f"Attempt to describe a user credential that does not exist: {user}",
        )
    return DescribeUserScramCredentialsResult(
        user=user, error_code=error, error_message=reason, credential_infos=() if count > 1 else infos
    )
