"""Signing in by the authorization code flow with PKCE (OpenID Connect Core 1.0, RFC 7636, RFC 9700).

Attempts wait in memory; what blocks runs in the console's threads; keys are read from the address in the provider's
document, and kept as brokers keep those of bearer tokens.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

from ottla_console.config.openid_settings import OpenIdSettings
from ottla_console.openid.access_tokens import AccessTokens
from ottla_console.openid.discovery import Endpoints
from ottla_console.openid.id_token import SKEW_S, BadIdToken, Identity, identity_of
from ottla_console.openid.provider import OpenIdProvider
from ottla_console.openid.sign_in_attempts import Attempt, SignInAttempts
from ottla_core.clock import Clock, SystemClock
from ottla_core.tokens.key_source import BearerTokens
from ottla_core.tokens.token_check import BadTokenError
from ottla_core.tokens.token_claims import BearerSettings, ClaimRules
from ottla_operations.errors import OperationError

ASKED_WITHIN_S: Final = 15.0
QUESTIONS_MAX: Final = 4
"""At a time, or whoever begins to sign in, which takes no rights, could keep all threads from the clusters."""
KEYS_REFRESH_MS: Final = 3_600_000
Result = TypeVar("Result")


class SignInRefused(OperationError):
    """The provider's answer signs nobody in."""


class InThreads(Protocol):
    """Runs what blocks."""

    def run(self, call: Callable[[], Result], *, within_s: float, subject: str) -> Awaitable[Result]:
        """Return what a call returns in a thread."""


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Who has signed in, and the access token."""

    identity: Identity
    tokens: AccessTokens


class OpenIdSignIn:
    """Signs users in with one provider.

    Args:
        settings: the provider's.
        threads: where it is asked.
        clock: says when tokens expire.

    Raises:
        ConfigurationError: the authorities of its certificate cannot be read.
    """

    def __init__(self, settings: OpenIdSettings, threads: InThreads, clock: Clock | None = None) -> None:
        self.settings = settings
        self._provider = OpenIdProvider(settings)
        self._threads = threads
        self._clock = clock or SystemClock()
        self._attempts = SignInAttempts(partial(secrets.token_urlsafe, 48))
        self._keys: tuple[str, BearerTokens] | None = None
        self._questions = asyncio.Semaphore(QUESTIONS_MAX)

    def close(self) -> None:
        """Close the connections to the provider."""
        self._provider.close()

    async def begin(self, browser: str | None, *, cluster: str, then: str) -> tuple[Attempt, str]:
        """Return a new attempt, and where the browser goes to sign in; arguments as those of `SignInAttempts.begin`.

        Raises:
            OperationError: the provider does not say where.
        """
        attempt = self._attempts.begin(browser, cluster=cluster, then=then, now_s=time.monotonic())
        return attempt, await self._ask(lambda: self._provider.sign_in_address(attempt))

    def attempt_of(self, state: str, browser: str | None) -> Attempt:
        """Return the attempt that a callback is for, for the only time.

        Raises:
            SignInRefused: none waits for it in this browser.
        """
        found = self._attempts.take(state, browser, time.monotonic())
        if found is None:
            raise SignInRefused(
                "this sign-in was not begun in this browser, was used already, or was begun more than ten minutes ago"
            )
        return found

    async def finish(self, attempt: Attempt, code: str) -> SignedIn:
        """Return who has signed in.

        Raises:
            SignInRefused: the ID token does not say so.
            OperationError: the provider does not accept the code, or does not answer.
        """
        answer = await self._ask(lambda: self._provider.redeem(code, attempt))
        if answer.id_token is None:
            raise SignInRefused("the provider's answer has no ID token")
        keys = self._keys_at(await self._ask(self._provider.endpoints))
        try:
            claims = await keys.claims_of(answer.id_token)
            identity = identity_of(claims, self.settings, attempt.nonce, self._clock.time_ms())
        except (BadTokenError, BadIdToken) as problem:
            raise SignInRefused(f"the provider's ID token is not accepted: {problem}") from None
        return SignedIn(identity, AccessTokens(answer, self._provider.refreshed, time.monotonic, time.time))

    async def end_session_address(self) -> str | None:
        """Return where users sign out of the provider itself; None where it does not say, or does not answer."""
        try:
            return (await self._ask(self._provider.endpoints)).end_session
        except OperationError:
            return None

    async def _ask(self, question: Callable[[], Result]) -> Result:
        subject = f"the OpenID provider {self.settings.issuer}"
        try:
            await asyncio.wait_for(self._questions.acquire(), ASKED_WITHIN_S)
        except TimeoutError:
            raise OperationError(f"too many questions wait for {subject}; try again in a moment") from None
        try:
            return await self._threads.run(question, within_s=ASKED_WITHIN_S, subject=subject)
        finally:
            self._questions.release()

    def _keys_at(self, endpoints: Endpoints) -> BearerTokens:
        if self._keys is None or self._keys[0] != endpoints.keys:
            rules = ClaimRules(
                audiences=frozenset(), issuer=None, subject_claim="sub", scope_claim="scope", skew_s=SKEW_S
            )
            settings = BearerSettings(
                jwks_url=endpoints.keys,
                authorities=self.settings.authorities or "",
                refresh_ms=KEYS_REFRESH_MS,
                rules=rules,
            )
            self._keys = endpoints.keys, BearerTokens(settings, self._clock)
        return self._keys[1]
