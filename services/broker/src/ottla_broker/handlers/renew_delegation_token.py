"""RenewDelegationToken (key 39): have a delegation token expire later (KIP-48)."""

from kio.schema.errors import ErrorCode
from kio.schema.renew_delegation_token.v2.response import RenewDelegationTokenResponse

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.handlers.create_delegation_token import (
    NO_TIME_MS,
    check_requests_allowed,
    milliseconds,
    time_of,
)
from ottla_broker.outcome import Parts
from ottla_core.cluster.controller_rpc import login_messages as messages
from ottla_core.cluster.controller_rpc.login_api import TokenLifetime
from ottla_core.errors import CodedError, KafkaError


async def handle(broker: Broker, request: Request) -> Parts:
    """Have the controller renew the token of a secret; only its owner and renewers may have that done."""
    message = request.newest()
    wanted_ms, usual_ms = milliseconds(message.renew_period), broker.config.delegation_token_expiry_time_ms
    lifetime_ms = min(wanted_ms, usual_ms) if wanted_ms > 0 else usual_ms
    error, expires_ms = ErrorCode.none, NO_TIME_MS
    try:
        expires_ms = await altered_end_ms(broker, request, bytes(message.hmac), lifetime_ms, renews=True)
    except KafkaError as refused:
        error = refused.code
    return request.respond(
        RenewDelegationTokenResponse(
            error_code=error, expiry_timestamp=time_of(expires_ms), throttle_time=NO_THROTTLE
        )
    )


async def altered_end_ms(broker: Broker, request: Request, secret: bytes, lifetime_ms: int, *, renews: bool) -> int:
    """Return when a token expires from now on, as the controller has decided.

    Args:
        broker: this broker.
        request: its principal asks for it.
        secret: of the token.
        lifetime_ms: milliseconds from now on; less than 0 deletes the token.
        renews: whether it is to live on.

    Raises:
        KafkaError: there is no such token, or the principal may not do it.
    """
    check_requests_allowed(broker, request)
    tokens = broker.logins.tokens
    if not tokens.are_enabled:
        raise CodedError(ErrorCode.delegation_token_auth_disabled)
    token = tokens.of_hmac(secret)
    if token is None:
        raise CodedError(ErrorCode.delegation_token_not_found)
    asked = TokenLifetime(
        token_id=token.token_id, requester=str(request.principal), lifetime_ms=lifetime_ms, renews=renews
    )
    response = await broker.controller.forward(
        "AlterDelegationToken",
        messages.TOKEN_LIFETIME.to_message(asked),
        timeout_s=broker.config.request_timeout_ms / 1000,
    )
    return messages.TOKEN_TIMES.from_message(response).expires_ms
