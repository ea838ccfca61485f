"""DescribeDelegationToken (key 41): which delegation tokens there are, with their secrets (KIP-48).

A client is told the tokens that are its own or that it may renew, and others where it may describe these, or the
tokens of their owners.
"""

from kio.schema.describe_delegation_token.v3.response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from kio.schema.errors import ErrorCode
from kio.static.primitive import i64

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.handlers.create_delegation_token import check_requests_allowed
from ottla_broker.long_responses import respond_in_thread
from ottla_broker.outcome import Outcome, Parts
from ottla_core.acls import AclOperation, ResourceKind
from ottla_core.cluster.state.security import DelegationToken
from ottla_core.errors import CodedError, KafkaError
from ottla_core.slices import in_slices, started


def handle(broker: Broker, request: Request) -> Outcome:
    """Answer with the tokens of the owners that are named, or of all."""
    return started(_handle(broker, request))


async def _handle(broker: Broker, request: Request) -> Parts:
    error, tokens = ErrorCode.none, tuple[DescribedDelegationToken, ...]()
    try:
        tokens = await _described(broker, request)
    except KafkaError as refused:
        error = refused.code
    response = DescribeDelegationTokenResponse(error_code=error, tokens=tokens, throttle_time=NO_THROTTLE)
    return await respond_in_thread(request, response, len(tokens))


async def _described(broker: Broker, request: Request) -> tuple[DescribedDelegationToken, ...]:
    check_requests_allowed(broker, request)
    if not broker.logins.tokens.are_enabled:
        raise CodedError(ErrorCode.delegation_token_auth_disabled)
    owners = request.newest().owners
    named = None if owners is None else {f"{each.principal_type}:{each.principal_name}" for each in owners}
    return await in_slices(
        _message_of(broker, token)
        for token in broker.state.security.delegation_tokens.values()
        if (named is None or not named.isdisjoint((token.owner, *token.renewers)))
        and _may_describe(broker, request, token)
    )


def _may_describe(broker: Broker, request: Request, token: DelegationToken) -> bool:
    if str(request.principal) in (token.owner, *token.renewers):
        return True
    permits = broker.authorization.permits
    return permits(
        request, AclOperation.DESCRIBE, ResourceKind.DELEGATION_TOKEN, token.token_id, is_listing=True
    ) or permits(request, AclOperation.DESCRIBE_TOKENS, ResourceKind.USER, token.owner, is_listing=True)


def _message_of(broker: Broker, token: DelegationToken) -> DescribedDelegationToken:
    (owner_kind, owner), (requester_kind, requester) = (each.split(":", 1) for each in (token.owner, token.requester))
    return DescribedDelegationToken(
        principal_type=owner_kind,
        principal_name=owner,
        token_requester_principal_type=requester_kind,
        token_requester_principal_name=requester,
        issue_timestamp=i64(token.issued_ms),
        expiry_timestamp=i64(token.expires_ms),
        max_timestamp=i64(token.max_lifetime_ms),
        token_id=token.token_id,
        hmac=broker.logins.tokens.hmac_of(token.token_id),
        renewers=tuple(
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, name in (each.split(":", 1) for each in token.renewers)
        ),
    )
