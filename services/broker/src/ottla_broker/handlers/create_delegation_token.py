"""CreateDelegationToken (key 38): a token that stands for its owner (KIP-48, KIP-373)."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast

from kio.schema.create_delegation_token.v3.response import CreateDelegationTokenResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import TZAware

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.listener_config import PLAINTEXT, SSL
from ottla_broker.outcome import Parts
from ottla_core.acls import AclOperation, ResourceKind
from ottla_core.cluster.controller_rpc import login_messages as messages
from ottla_core.cluster.controller_rpc.login_api import NewToken, TokenTimes
from ottla_core.errors import CodedError, KafkaError
from ottla_core.kafka_uuid import uuid_text
from ottla_core.principal import ANONYMOUS, USER, Principal
from ottla_core.random_ids import random_uuid

MILLISECOND = timedelta(milliseconds=1)
NO_TIME_MS = 0
"""What clients are told in place of a time after a failure, as by Kafka's controllers (its brokers say -1)."""


@dataclass(frozen=True, slots=True)
class _Created:
    """A token as it is told."""

    token_id: str
    secret: bytes
    times: TokenTimes


async def handle(broker: Broker, request: Request) -> Parts:
    """Have the controller create a token, and tell its id and secret."""
    message = request.newest()
    requester = request.principal
    owner = requester
    if message.owner_principal_name:
        owner = Principal(message.owner_principal_type or USER, message.owner_principal_name)
    try:
        created = await _create(broker, request, owner)
    except KafkaError as refused:
        return _answer(request, owner, requester, refused.code, None)
    return _answer(request, owner, requester, ErrorCode.none, created)


async def _create(broker: Broker, request: Request, owner: Principal) -> _Created:
    message, tokens = request.newest(), broker.logins.tokens
    check_requests_allowed(broker, request)
    if owner != request.principal and not broker.authorization.permits(
        request, AclOperation.CREATE_TOKENS, ResourceKind.USER, str(owner)
    ):
        raise CodedError(ErrorCode.delegation_token_authorization_failed)
    if any(each.principal_type != USER for each in message.renewers):
        raise CodedError(ErrorCode.invalid_principal_type)
    if not tokens.are_enabled:
        raise CodedError(ErrorCode.delegation_token_auth_disabled)
    config = broker.config
    wanted_ms = milliseconds(message.max_lifetime)
    longest_ms = config.delegation_token_max_lifetime_ms
    asked = NewToken(
        token_id=uuid_text(random_uuid()),
        owner=str(owner),
        requester=str(request.principal),
        renewers=tuple(dict.fromkeys(f"{each.principal_type}:{each.principal_name}" for each in message.renewers)),
        max_lifetime_ms=min(wanted_ms, longest_ms) if wanted_ms > 0 else longest_ms,
        lifetime_ms=config.delegation_token_expiry_time_ms,
    )
    response = await broker.controller.forward(
        "CreateDelegationToken", messages.NEW_TOKEN.to_message(asked), timeout_s=config.request_timeout_ms / 1000
    )
    return _Created(asked.token_id, tokens.hmac_of(asked.token_id), messages.TOKEN_TIMES.from_message(response))


def check_requests_allowed(broker: Broker, request: Request) -> None:
    """Look whether the connection may ask about tokens: not one that a token, or nobody, has opened.

    Raises:
        CodedError: it may not.
    """
    protocol = dict(broker.config.listener_security_protocol_map).get(request.listener, PLAINTEXT)
    if (
        request.connection.is_token_authenticated
        or protocol == PLAINTEXT
        or (protocol == SSL and request.principal == ANONYMOUS)
    ):
        raise CodedError(ErrorCode.delegation_token_request_not_allowed)


def milliseconds(duration: timedelta) -> int:
    """Return a duration in milliseconds."""
    return duration // MILLISECOND


def time_of(time_ms: int) -> TZAware:
    """Return a time as kio's messages have it.

    kio's own way to make one refuses milliseconds.
    """
    return cast(TZAware, datetime(1970, 1, 1, tzinfo=UTC) + time_ms * MILLISECOND)


def _answer(
    request: Request, owner: Principal, requester: Principal, error: ErrorCode, created: _Created | None
) -> Parts:
    times = created.times if created else TokenTimes(issued_ms=NO_TIME_MS, expires_ms=NO_TIME_MS, max_ms=NO_TIME_MS)
    return request.respond(
        CreateDelegationTokenResponse(
            error_code=error,
            principal_type=owner.kind,
            principal_name=owner.name,
            token_requester_principal_type=requester.kind,
            token_requester_principal_name=requester.name,
            issue_timestamp=time_of(times.issued_ms),
            expiry_timestamp=time_of(times.expires_ms),
            max_timestamp=time_of(times.max_ms),
            token_id=created.token_id if created else "",
            hmac=created.secret if created else b"",
            throttle_time=NO_THROTTLE,
        )
    )
