"""Attempts to sign in that have begun and wait for the provider to send the browser back. Pure.

An attempt is known by its `state`, which the provider hands back, and belongs to the browser that began it, which
shows so by a cookie: an address of a callback that somebody else has begun signs nobody in. It is good once, for ten
minutes.
"""

import hmac
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

ATTEMPTS_MAX: Final = 1000
LASTS_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt.

    Attributes:
        state: by which it is found again.
        nonce: which the ID token has to have.
        verifier: of PKCE (RFC 7636).
        browser: the secret of the cookie.
        cluster: whose page asked for it.
        then: where the browser goes afterwards.
        begun_s: by a clock that does not jump.
    """

    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    browser: str = field(repr=False)
    cluster: str
    then: str
    begun_s: float


class SignInAttempts:
    """All that wait; the oldest make way.

    Args:
        draw: returns a secret that nobody can guess.
    """

    def __init__(self, draw: Callable[[], str]) -> None:
        self._draw = draw
        self._attempts: OrderedDict[str, Attempt] = OrderedDict()

    def __len__(self) -> int:
        return len(self._attempts)

    def begin(self, browser: str | None, *, cluster: str, then: str, now_s: float) -> Attempt:
        """Return a new attempt.

        Args:
            browser: the secret that the browser has shown, if it has one; it is kept if an attempt waits for it, so
                that two pages of one browser can sign in at a time.
            cluster: whose page asks for it.
            then: where the browser goes afterwards.
            now_s: by a clock that does not jump.
        """
        is_known = any(_is_of(each, browser) for each in self._attempts.values())
        attempt = Attempt(
            state=self._draw(),
            nonce=self._draw(),
            verifier=self._draw(),
            browser=browser if browser is not None and is_known else self._draw(),
            cluster=cluster,
            then=then,
            begun_s=now_s,
        )
        self._attempts[attempt.state] = attempt
        while len(self._attempts) > ATTEMPTS_MAX:
            self._attempts.popitem(last=False)
        return attempt

    def take(self, state: str, browser: str | None, now_s: float) -> Attempt | None:
        """Return the attempt that a callback is for, for the only time; None if it is not this browser's, or over."""
        found = self._attempts.get(state)
        if found is None or not _is_of(found, browser):
            return None
        del self._attempts[state]
        return found if now_s - found.begun_s <= LASTS_S else None


def _is_of(attempt: Attempt, browser: str | None) -> bool:
    return browser is not None and hmac.compare_digest(attempt.browser.encode(), browser.encode())
