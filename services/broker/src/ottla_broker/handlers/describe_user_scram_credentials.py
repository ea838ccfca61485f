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
from ottla_broker.outcome import Parts
from ottla_core.scram import NOBODY


def handle(broker: Broker, request: Request) -> Parts:
    """Answer with the mechanisms and iterations of the users that are named, or of all."""
    credentials: dict[str, list[CredentialInfo]] = {}
    for (mechanism, user), credential in broker.state.security.scram_credentials.items():
        if user != NOBODY:
            info = CredentialInfo(mechanism=i8(mechanism), iterations=i32(credential.iterations))
            credentials.setdefault(user, []).append(info)
    counts = Counter(each.name for each in request.newest().users or ()) or dict.fromkeys(credentials, 1)
    results = tuple(_described(user, count, credentials.get(user, [])) for user, count in counts.items())
    return request.respond(
        DescribeUserScramCredentialsResponse(
            throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None, results=results
        )
    )


def _described(user: str, count: int, infos: list[CredentialInfo]) -> DescribeUserScramCredentialsResult:
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
    shown = () if error else tuple(sorted(infos, key=lambda info: info.mechanism))
    return DescribeUserScramCredentialsResult(
        user=user, error_code=error, error_message=reason, credential_infos=shown
    )
