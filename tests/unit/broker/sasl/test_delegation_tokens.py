"""What an answer about a delegation token tells, and when it comes."""

import asyncio

import pytest

from ottla_broker.sasl import delegation_tokens
from ottla_broker.sasl.credentials import UserCredentials
from ottla_broker.sasl.delegation_tokens import ANSWER_SECONDS, DelegationTokens
from ottla_core.clock import SystemClock
from ottla_core.cluster.state.security import DelegationToken, ScramMechanism, SecurityState

FAR_MS = 2**62
TOKEN = DelegationToken(
    token_id="known",
    owner="User:ann",
    requester="User:ann",
    renewers=(),
    issued_ms=0,
    expires_ms=FAR_MS,
    max_lifetime_ms=FAR_MS,
)


def test_every_answer_comes_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        state = SecurityState(delegation_tokens={"known": TOKEN})
        users = UserCredentials(lambda: state, b"secret")
        tokens = DelegationTokens(lambda: state, "key", users, SystemClock())
        answered_at: list[float] = []

        async def wait_until(time_s: float) -> None:
            answered_at.append(time_s)

        monkeypatch.setattr(delegation_tokens, "_wait_until", wait_until)
        loop = asyncio.get_running_loop()
        for token_id, is_known in (("unknown", False), ("known", True), ("known", True), ("unknown", False)):
            before = loop.time()
            found = await tokens.find(ScramMechanism.SHA_256, token_id)
            assert found.is_known is is_known
            assert before + ANSWER_SECONDS <= answered_at.pop() <= loop.time() + ANSWER_SECONDS
            assert not answered_at

    asyncio.run(run())
