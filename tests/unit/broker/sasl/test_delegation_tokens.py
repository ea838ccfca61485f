"""What an answer about a delegation token tells, and when it comes."""

import asyncio
from base64 import b64encode

import pytest

from ottla_broker.sasl import delegation_tokens
from ottla_broker.sasl.credentials import UserCredentials
from ottla_broker.sasl.delegation_tokens import ANSWER_SECONDS, DelegationTokens
from ottla_core.clock import SystemClock
from ottla_core.cluster.state.security import DelegationToken, ScramMechanism, SecurityState
from ottla_core.scram import credential_of, salted_password

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


def test_the_salt_of_a_token_tells_nothing_of_whether_there_is_one() -> None:
    """Whoever knows an id, as from a log, does not learn whether the token has ended, from no broker."""
    state = SecurityState(delegation_tokens={"known": TOKEN})
    without = SecurityState()

    async def salts(now: SecurityState, process_secret: bytes) -> list[tuple[bytes, int]]:
        users = UserCredentials(lambda: now, process_secret)
        tokens = DelegationTokens(lambda: now, "key", users, SystemClock())
        found = [await tokens.find(ScramMechanism.SHA_512, token_id) for token_id in ("known", "never was")]
        assert [each.is_known for each in found] == [now is state, False]
        return [(each.credential.salt, each.credential.iterations) for each in found]

    async def run() -> None:
        first = await salts(state, b"drawn by one broker")
        assert await salts(without, b"drawn by one broker") == first
        assert await salts(without, b"drawn by another one") == first
        assert len(set(first)) == 2

    asyncio.run(run())


def test_what_stands_for_an_unknown_token_fits_no_secret() -> None:
    async def run() -> None:
        state = SecurityState()
        tokens = DelegationTokens(lambda: state, "key", UserCredentials(lambda: state, b""), SystemClock())
        found = (await tokens.find(ScramMechanism.SHA_512, "gone")).credential
        password = b64encode(tokens.hmac_of("gone")).decode()
        salted = salted_password(ScramMechanism.SHA_512, password, found.salt, found.iterations)
        right = credential_of(ScramMechanism.SHA_512, salted, found.salt, found.iterations)
        assert found.salt == right.salt
        assert found.stored_key != right.stored_key
        assert found.server_key != right.server_key

    asyncio.run(run())
