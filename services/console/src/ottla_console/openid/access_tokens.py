"""One user's access token for clusters that take it, renewed by the refresh token while the session goes on."""

import threading
from collections.abc import Callable
from typing import Final

from ottla_console.openid.provider import ProviderRefused
from ottla_console.openid.token_answer import TokenAnswer
from ottla_operations.errors import OperationError

LIFE_SHARE: Final = 0.8
"""After this part of its life a token is renewed, as Java's clients do it."""
LEAST_LIFE_S: Final = 5.0
"""A token that is good for less is shown to nobody."""


class AccessTokens:
    """The token; threads share it.

    Args:
        first: the tokens of the sign-in.
        refreshed: asks for newer ones by a refresh token; it blocks, and raises as `OpenIdProvider.refreshed`.
        monotonic_s: a clock that does not jump.
        wall_s: seconds since 1970.
    """

    def __init__(
        self,
        first: TokenAnswer,
        refreshed: Callable[[str], TokenAnswer],
        monotonic_s: Callable[[], float],
        wall_s: Callable[[], float],
    ) -> None:
        self._refreshed = refreshed
        self._monotonic_s = monotonic_s
        self._wall_s = wall_s
        self._lock = threading.Lock()
        self._has_ended = False
        self._refresh_token: str | None = None
        self._take(first, monotonic_s())

    @property
    def has_ended(self) -> bool:
        """Whether there is no token any more, and the user has to sign in again."""
        if self._has_ended:
            return True
        return self._refresh_token is None and self._left_s() < LEAST_LIFE_S

    def end(self) -> None:
        """Give no token any more: the user has signed out."""
        self._has_ended = True

    def current(self) -> tuple[str, float]:
        """Return a token that is good now, and when it expires, in seconds since 1970; it blocks.

        Raises:
            OperationError: there is none any more, or the provider cannot be asked for one.
        """
        with self._lock:
            if self.has_ended:
                raise OperationError("the sign-in is over: sign in again")
            if self._refresh_token is not None and self._left_s() < max(
                self._life_s * (1 - LIFE_SHARE), LEAST_LIFE_S
            ):
                self._renew(self._refresh_token)
            return self._token, self._wall_s() + self._left_s()

    def _renew(self, refresh_token: str) -> None:
        asked_s = self._monotonic_s()
        try:
            answer = self._refreshed(refresh_token)
        except ProviderRefused as error:
            self._has_ended = True
            raise OperationError(f"the sign-in is over: {error}; sign in again") from None
        except OperationError:
            if self._left_s() < LEAST_LIFE_S:
                raise
            return  # the former one is good for a while
        if self._has_ended:  # the user has signed out meanwhile
            raise OperationError("the sign-in is over: sign in again")
        self._take(answer, asked_s)

    def _take(self, answer: TokenAnswer, asked_s: float) -> None:
        self._token = answer.access_token
        self._life_s = answer.life_s
        self._expires_s = asked_s + answer.life_s
        # Not every provider draws a new one each time.
        self._refresh_token = answer.refresh_token or self._refresh_token

    def _left_s(self) -> float:
        return self._expires_s - self._monotonic_s()
