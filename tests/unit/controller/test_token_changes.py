"""What becomes of changes to delegation tokens, as a table; the order of refusals is Kafka's."""

from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode

from ottla_controller.token_changes import (
    PRINCIPALS_BYTES_MAX,
    RENEWERS_MAX,
    TOKENS_OF_A_REQUESTER_MAX,
    altered_token,
    created_token,
    ended_tokens,
)
from ottla_core.cluster.controller_rpc.login_api import NewToken, TokenLifetime
from ottla_core.cluster.state.features import FinalizedFeatures
from ottla_core.cluster.state.model import ClusterState
from ottla_core.cluster.state.security import DelegationToken, SecurityState
from ottla_core.errors import CodedError

NOW = 1_000_000
TOKEN = DelegationToken(
    token_id="one",
    owner="User:ann",
    requester="User:root",
    renewers=("User:bob",),
    issued_ms=NOW - 100,
    expires_ms=NOW + 100,
    max_lifetime_ms=NOW + 1000,
)
ASKED = NewToken(
    token_id="two", owner="User:ann", requester="User:root", renewers=(), max_lifetime_ms=1000, lifetime_ms=100
)


def state_of(*tokens: DelegationToken, level: int = 3) -> ClusterState:
    return ClusterState(
        security=SecurityState(delegation_tokens={each.token_id: each for each in tokens}),
        features=FinalizedFeatures(levels={"ottla.version": level}, epoch=7),
    )


def lifetime(
    requester: str = "User:ann", lifetime_ms: int = 50, *, renews: bool, token: str = "one"
) -> TokenLifetime:
    return TokenLifetime(token_id=token, requester=requester, lifetime_ms=lifetime_ms, renews=renews)


def code_of(asked: TokenLifetime, now_ms: int = NOW, *, level: int = 3) -> ErrorCode:
    with pytest.raises(CodedError) as refused:
        altered_token(asked, state_of(TOKEN, level=level), now_ms)
    return refused.value.code


def test_a_token_expires_when_it_is_not_renewed_and_at_the_latest() -> None:
    made = created_token(ASKED, state_of(), NOW)
    assert (made.issued_ms, made.expires_ms, made.max_lifetime_ms) == (NOW, NOW + 100, NOW + 1000)
    short = created_token(
        NewToken(
            token_id="two", owner="User:a", requester="User:a", renewers=(), max_lifetime_ms=10, lifetime_ms=100
        ),
        state_of(),
        NOW,
    )
    assert short.expires_ms == short.max_lifetime_ms == NOW + 10


def test_a_repeated_request_finds_its_token() -> None:
    made = created_token(ASKED, state_of(), NOW)
    assert created_token(ASKED, state_of(made), NOW + 5) is made


def test_below_the_level_there_are_no_tokens() -> None:
    with pytest.raises(CodedError) as refused:
        created_token(ASKED, state_of(level=2), NOW)
    assert refused.value.code is ErrorCode.unsupported_version
    assert code_of(lifetime(renews=True), level=2) is ErrorCode.unsupported_version


@pytest.mark.parametrize("requester", ["User:ann", "User:bob"])
def test_owner_and_renewers_set_the_end_up_to_the_latest(requester: str) -> None:
    renewed = altered_token(lifetime(requester, 500, renews=True), state_of(TOKEN), NOW)
    assert renewed is not None
    assert renewed.expires_ms == NOW + 500
    longest = altered_token(lifetime(requester, 5000, renews=True), state_of(TOKEN), NOW)
    assert longest is not None
    assert longest.expires_ms == TOKEN.max_lifetime_ms
    assert altered_token(lifetime(requester, -1, renews=False), state_of(TOKEN), NOW) is None


@pytest.mark.parametrize("renews", [True, False])
def test_others_may_not(renews: bool) -> None:
    assert code_of(lifetime("User:root", renews=renews)) is ErrorCode.delegation_token_owner_mismatch
    assert code_of(lifetime(token="three", renews=renews)) is ErrorCode.delegation_token_not_found


def test_a_token_that_has_expired_can_be_deleted_and_nothing_else() -> None:
    late = NOW + 101
    assert code_of(lifetime("User:root", renews=True), late) is ErrorCode.delegation_token_expired
    assert code_of(lifetime("User:root", renews=False), late) is ErrorCode.delegation_token_owner_mismatch
    assert code_of(lifetime(renews=False), late) is ErrorCode.delegation_token_expired
    assert altered_token(lifetime(lifetime_ms=-1, renews=False), state_of(TOKEN), late) is None
    assert [*ended_tokens(state_of(TOKEN), late)] == [TOKEN]
    assert not [*ended_tokens(state_of(TOKEN), NOW + 100)]


@pytest.mark.parametrize(
    "asked",
    [
        replace(ASKED, renewers=tuple(f"User:{number}" for number in range(RENEWERS_MAX + 1))),
        replace(ASKED, renewers=("User:" + "a" * PRINCIPALS_BYTES_MAX,)),
        replace(ASKED, owner="User:" + "ä" * (PRINCIPALS_BYTES_MAX // 2)),
    ],
)
def test_a_token_of_many_or_long_names_is_refused(asked: NewToken) -> None:
    with pytest.raises(CodedError, match="at most 50 renewers") as refused:
        created_token(asked, state_of(), NOW)
    assert refused.value.code is ErrorCode.policy_violation


def test_one_who_has_asked_for_many_tokens_gets_no_more_and_others_do() -> None:
    tokens = [replace(TOKEN, token_id=str(number)) for number in range(TOKENS_OF_A_REQUESTER_MAX)]
    with pytest.raises(CodedError, match="User:root has asked for 2000"):
        created_token(ASKED, state_of(*tokens), NOW)
    assert created_token(replace(ASKED, requester="User:carl"), state_of(*tokens), NOW).requester == "User:carl"
    assert created_token(ASKED, state_of(*tokens[1:]), NOW).requester == "User:root"
