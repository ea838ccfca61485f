"""Keys of bearer tokens are read, kept, and read again, whatever clients send."""

import asyncio
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla_core.clock import SystemClock
from ottla_core.errors import ConfigurationError
from ottla_core.tokens.key_source import RETRY_SECONDS, BearerTokens
from ottla_core.tokens.token_claims import BearerSettings, ClaimRules
from tests.support.servers.issuer import Issuer

RULES = ClaimRules(audiences=frozenset(), issuer=None, subject_claim="sub", scope_claim="scope", skew_s=30)


@dataclass
class LateClock(SystemClock):
    """A clock whose monotonic time is the test's."""

    now_s: float = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@dataclass
class Keys:
    """A file of keys, and what judges by it."""

    file: Path
    clock: LateClock
    tokens: BearerTokens

    def are(self, *issuers: Issuer) -> None:
        self.file.write_bytes(issuers[0].key_set(*issuers[1:]))

    async def accept(self, issuer: Issuer) -> bool:
        return (await self.tokens.judge(issuer.token())).subject == "ann"


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    file = tmp_path / "keys with blanks.json"
    clock = LateClock()
    settings = BearerSettings(jwks_url=file.as_uri(), authorities="", refresh_ms=60_000, rules=RULES)
    return Keys(file, clock, BearerTokens(settings, clock))


def test_a_key_that_is_new_is_found_but_not_looked_for_all_the_time(keys: Keys) -> None:
    async def run() -> None:
        first, second, third = Issuer("first"), Issuer("second"), Issuer("third")
        keys.are(first)
        assert await keys.accept(first)
        keys.are(first, second)
        assert not await keys.accept(second), "it was read a moment ago"
        keys.clock.now_s += RETRY_SECONDS
        assert await keys.accept(second)
        keys.are(first, second, third)
        keys.clock.now_s += RETRY_SECONDS - 1
        assert not await keys.accept(third)
        assert await keys.accept(first)

    asyncio.run(run())


def test_keys_that_cannot_be_read_leave_the_former_ones(keys: Keys) -> None:
    async def run() -> None:
        issuer = Issuer()
        assert not await keys.accept(issuer)
        keys.are(issuer)
        keys.clock.now_s += RETRY_SECONDS
        assert await keys.accept(issuer)
        keys.file.write_bytes(b"half of it")
        keys.clock.now_s += 100
        assert await keys.accept(issuer), "the former keys are good while others are being read"
        assert await keys.accept(issuer)

    asyncio.run(run())


def test_a_key_that_was_taken_away_is_forgotten_after_the_time(keys: Keys) -> None:
    async def run() -> None:
        former, new = Issuer("former"), Issuer("new")
        keys.are(former)
        assert await keys.accept(former)
        keys.are(new)
        keys.clock.now_s += 61
        await keys.accept(former)  # begins to read the keys anew
        for _ in range(1000):
            await asyncio.sleep(0.005)  # between two looks
            if not await keys.accept(former):
                break
        else:
            pytest.fail("the former key is still accepted")
        assert await keys.accept(new)

    asyncio.run(run())


def test_a_client_that_leaves_during_the_read_takes_the_keys_from_nobody(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        issuer = Issuer()
        keys.are(issuer)
        read, has_begun, may_end, reads = keys.tokens._read, threading.Event(), threading.Event(), 0

        def held() -> object:
            nonlocal reads
            reads += 1
            has_begun.set()
            assert may_end.wait(30)
            return read()

        monkeypatch.setattr(keys.tokens, "_read", held)
        leaving = asyncio.create_task(keys.accept(issuer))
        assert await asyncio.to_thread(has_begun.wait, 30)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        staying = asyncio.create_task(keys.accept(issuer))
        await asyncio.sleep(0)  # it waits for the read that is under way
        may_end.set()
        assert await staying
        assert await keys.accept(issuer)
        assert reads == 1

    asyncio.run(run())


def test_many_at_once_read_the_keys_once(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        issuer = Issuer()
        keys.are(issuer)
        reads = 0
        read = keys.tokens._read

        def counted() -> object:
            nonlocal reads
            reads += 1
            return read()

        monkeypatch.setattr(keys.tokens, "_read", counted)
        assert all(await asyncio.gather(*(keys.accept(issuer) for _ in range(20))))
        assert reads == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    "url",
    [
        "https://ann:hunter2@login.example.com/keys",
        "https://ann:hunter2@login.example.com:8443/keys",
        "http://hunter2@login.example.com/keys",
    ],
)
def test_an_address_with_a_login_is_refused_and_not_told(url: str) -> None:
    """It would not be sent, and would stand in the log, and in what describes the broker's settings."""
    settings = BearerSettings(jwks_url=url, authorities="", refresh_ms=60_000, rules=RULES)
    with pytest.raises(ConfigurationError) as refused:
        BearerTokens(settings, SystemClock())
    assert "login.example.com" in str(refused.value)
    assert "hunter2" not in str(refused.value)
    assert "ann" not in str(refused.value)
