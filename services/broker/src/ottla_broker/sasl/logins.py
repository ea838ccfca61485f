"""Logins of this broker's clients as a whole: users, delegation tokens, and what became of logins."""

from collections.abc import Callable, Mapping
from secrets import token_bytes
from typing import TYPE_CHECKING, Final

from ottla_broker.sasl.credentials import UserCredentials
from ottla_broker.sasl.delegation_tokens import DelegationTokens
from ottla_broker.sasl.listener_sasl import ListenerSasl, LoginCounts
from ottla_broker.sasl.sasl_settings import SaslSettings
from ottla_core.clock import Clock
from ottla_core.cluster.state.security import SecurityState
from ottla_core.tokens.token_claims import BearerSettings

if TYPE_CHECKING:
    from ottla_core.tokens.key_source import BearerTokens

SECRET_BYTES: Final = 32


class Logins:
    """What logins of all listeners go by.

    Args:
        security: returns the present state.
        token_secret_key: `delegation.token.secret.key`; empty: there are no tokens.
        clock: says what has expired.

    Attributes:
        users: those of SCRAM.
        tokens: delegation tokens.
        counts: what became of logins.
    """

    def __init__(self, security: Callable[[], SecurityState], token_secret_key: str, clock: Clock) -> None:
        self._clock = clock
        self.users = UserCredentials(security, token_bytes(SECRET_BYTES))
        self.tokens = DelegationTokens(security, token_secret_key, self.users, clock)
        self.counts = LoginCounts()

    def of_listeners(self, settings: Mapping[str, SaslSettings], failure_delay_ms: int) -> dict[str, ListenerSasl]:
        """Return the SASL of each listener that has logins.

        Raises:
            ConfigurationError: a file cannot be read.
        """
        return {name: self._of_listener(name, each, failure_delay_ms / 1000) for name, each in settings.items()}

    def _of_listener(self, name: str, settings: SaslSettings, failure_delay_s: float) -> ListenerSasl:
        return ListenerSasl(
            name,
            settings,
            failure_delay_s=failure_delay_s,
            users=self.users,
            find_token=self.tokens.find,
            bearer=None if settings.bearer is None else _bearer_tokens(settings.bearer, self._clock),
            counts=self.counts,
        )


def _bearer_tokens(settings: BearerSettings, clock: Clock) -> "BearerTokens":
    from ottla_core.tokens.key_source import BearerTokens  # noqa: PLC0415 - what it imports has its price

    return BearerTokens(settings, clock)
