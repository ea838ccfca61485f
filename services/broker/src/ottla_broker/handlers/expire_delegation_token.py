"""ExpireDelegationToken (key 40): have a delegation token end, at once or later (KIP-48)."""

from kio.schema.errors import ErrorCode
from kio.schema.expire_delegation_token.v2.response import ExpireDelegationTokenResponse

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.handlers.create_delegation_token import NO_TIME_MS, milliseconds, time_of
from ottla_broker.handlers.renew_delegation_token import altered_end_ms
from ottla_broker.outcome import Parts
from ottla_core.errors import KafkaError


async def handle(broker: Broker, request: Request) -> Parts:
    """Have the controller end the token of a secret; a period of less than 0 deletes it at once."""
    message = request.newest()
    period_ms = milliseconds(message.expiry_time_period)
    error, expires_ms = ErrorCode.none, NO_TIME_MS
    try:
        expires_ms = await altered_end_ms(broker, request, bytes(message.hmac), period_ms, renews=False)
    except KafkaError as refused:
        error = refused.code
    return request.respond(
        ExpireDelegationTokenResponse(
            error_code=error, expiry_timestamp=time_of(expires_ms), throttle_time=NO_THROTTLE
        )
    )
