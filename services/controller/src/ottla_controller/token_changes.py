"""What becomes of changes to delegation tokens (KIP-48). Pure.

Source: Kafka's DelegationTokenControlManager, with its order of refusals. Brokers, which know the secrets of tokens,
have looked at these, and at who may ask for tokens at all.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from kio.schema.errors import ErrorCode

from ottla_controller.security_level import check_security_level
from ottla_core.cluster.controller_rpc.login_api import NewToken, TokenLifetime
from ottla_core.cluster.state.model import ClusterState
from ottla_core.cluster.state.security import DelegationToken
from ottla_core.errors import CodedError

TOKENS_MAX: Final = 100_000
"""Every process has all tokens in memory."""
TOKENS_OF_A_REQUESTER_MAX: Final = 2_000
"""Any client that has logged in may ask for tokens; one of them alone must not use up `TOKENS_MAX`."""
RENEWERS_MAX: Final = 50
PRINCIPALS_BYTES_MAX: Final = 4096
"""Of a token: its owner, requester and renewers."""
TIME_MS_MAX: Final = 2**63 - 1


def created_token(asked: NewToken, state: ClusterState, now_ms: int) -> DelegationToken:
    """Return the token that is to be written; one that is there already is what a repeated request asks for.

    Raises:
        CodedError: there may be no such token.
    """
    check_security_level(state)
    known = state.security.delegation_tokens.get(asked.token_id)
    if known is not None:
        return known
    if len(state.security.delegation_tokens) >= TOKENS_MAX:
        raise CodedError(ErrorCode.policy_violation, f"there are {TOKENS_MAX} delegation tokens already")
    _check_size(asked)
    own = sum(each.requester == asked.requester for each in state.security.delegation_tokens.values())
    if own >= TOKENS_OF_A_REQUESTER_MAX:
        raise CodedError(
            ErrorCode.policy_violation, f"{asked.requester} has asked for {own} delegation tokens that have not ended"
        )
    latest_ms = min(now_ms + asked.max_lifetime_ms, TIME_MS_MAX)
    return DelegationToken(
        token_id=asked.token_id,
        owner=asked.owner,
        requester=asked.requester,
        renewers=asked.renewers,
        issued_ms=now_ms,
        expires_ms=min(latest_ms, now_ms + asked.lifetime_ms),
        max_lifetime_ms=latest_ms,
    )


def _check_size(asked: NewToken) -> None:
    """See that a token has no more than a value in etcd, and every process's memory, has room for.

    Raises:
        CodedError: it has.
    """
    size_bytes = sum(len(each.encode()) for each in (asked.owner, asked.requester, *asked.renewers))
    if len(asked.renewers) > RENEWERS_MAX or size_bytes > PRINCIPALS_BYTES_MAX:
        raise CodedError(
            ErrorCode.policy_violation,
            f"a delegation token has at most {RENEWERS_MAX} renewers, and {PRINCIPALS_BYTES_MAX} bytes of names",
        )


def altered_token(asked: TokenLifetime, state: ClusterState, now_ms: int) -> DelegationToken | None:
    """Return the token with its new end, None if it is to be deleted.

    Raises:
        CodedError: there is no such token, it has expired, or the requester may not do it.
    """
    check_security_level(state)
    token = state.security.delegation_tokens.get(asked.token_id)
    if token is None:
        raise CodedError(ErrorCode.delegation_token_not_found)
    has_expired = has_ended(token, now_ms)
    if asked.renews and has_expired:
        raise CodedError(ErrorCode.delegation_token_expired)
    if asked.requester != token.owner and asked.requester not in token.renewers:
        raise CodedError(ErrorCode.delegation_token_owner_mismatch)
    if not asked.renews and asked.lifetime_ms < 0:
        return None
    if has_expired:
        raise CodedError(ErrorCode.delegation_token_expired)
    return replace(token, expires_ms=min(token.max_lifetime_ms, now_ms + max(0, asked.lifetime_ms)))


def has_ended(token: DelegationToken, now_ms: int) -> bool:
    """Return whether a token is good for nothing any more."""
    return min(token.expires_ms, token.max_lifetime_ms) < now_ms


def ended_tokens(state: ClusterState, now_ms: int) -> Iterator[DelegationToken]:
    """Yield the tokens that have expired."""
    return (each for each in state.security.delegation_tokens.values() if has_ended(each, now_ms))
