"""SASL of one listener: makes exchanges, answers what they ask, and keeps account of logins.

What takes long is done in threads: reading the keys of bearer tokens, and making a credential of a delegation token.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final

import structlog

from ottla_broker.sasl.bearer import Bearer
from ottla_broker.sasl.credentials import UserCredentials
from ottla_broker.sasl.exchange import CredentialWanted, Exchange, FoundCredential, Question, Step, TokenShown
from ottla_broker.sasl.password_file import PasswordFile
from ottla_broker.sasl.plain import Plain
from ottla_broker.sasl.sasl_settings import OAUTHBEARER, PLAIN, SaslSettings
from ottla_broker.sasl.scram import Scram
from ottla_core.cluster.state.security import ScramMechanism
from ottla_core.failure_log import FailureLog, reason_for_log

if TYPE_CHECKING:
    from ottla_core.tokens.key_source import BearerTokens

NONCE_BYTES: Final = 24
_SCRAM: Final[Mapping[str, ScramMechanism]] = {each.sasl_name: each for each in ScramMechanism}

FindToken = Callable[[ScramMechanism, str], Awaitable[FoundCredential]]
"""Returns the credential of a delegation token, by its id."""

logger = structlog.get_logger("sasl")


@dataclass(slots=True)
class LoginCounts:
    """What became of logins.

    Attributes:
        succeeded: first logins and renewed ones.
        failed: those that were refused, or that broke the rules.
        expired: connections that were closed as their login was not renewed in time.
    """

    succeeded: int = 0
    failed: int = 0
    expired: int = 0


class ListenerSasl:
    """SASL of one listener.

    Args:
        name: of the listener.
        settings: of the listener.
        failure_delay_s: how long a client waits that is not believed.
        users: those of SCRAM.
        find_token: finds delegation tokens.
        bearer: judges tokens; None without OAUTHBEARER.
        counts: where to count; all listeners may share it.

    Raises:
        ConfigurationError: the file of users cannot be read.
    """

    def __init__(
        self,
        name: str,
        settings: SaslSettings,
        *,
        failure_delay_s: float,
        users: UserCredentials,
        find_token: FindToken,
        bearer: "BearerTokens | None",
        counts: LoginCounts,
    ) -> None:
        self.name = name
        self.settings = settings
        self.failure_delay_s = failure_delay_s
        self.counts = counts
        self._users = users
        self._find_token = find_token
        self._bearer = bearer
        self._failures = FailureLog()
        self._password_file = PasswordFile(Path(settings.users_file)) if settings.users_file else None

    def exchange(self, mechanism: str) -> Exchange:
        """Return a new exchange of an enabled mechanism."""
        if mechanism == PLAIN:
            if self._password_file is None:
                return Plain(self.settings.passwords)
            return Plain(self.settings.passwords, self._password_file.passwords())
        if mechanism == OAUTHBEARER:
            return Bearer()
        return Scram(_SCRAM[mechanism], token_urlsafe(NONCE_BYTES))

    async def next_step(self, exchange: Exchange, mechanism: str, message: bytes) -> Step:
        """Return the step to which a message of the client leads."""
        step = exchange.respond(message)
        if isinstance(step, CredentialWanted | TokenShown):
            return await self._answer(exchange, mechanism, step)
        return step

    async def _answer(self, exchange: Exchange, mechanism: str, question: Question) -> Step:
        if isinstance(question, TokenShown):
            assert isinstance(exchange, Bearer)
            assert self._bearer is not None
            return exchange.judge(await self._bearer.judge(question.token))
        assert isinstance(exchange, Scram)
        variant = _SCRAM[mechanism]
        if question.of_token:
            return exchange.go_on(await self._find_token(variant, question.name))
        return exchange.go_on(self._users.find(variant, question.name))

    def note_failure(self, peer: str, kind: str, reason: str) -> None:
        """Count a login that came to nothing, and log it unless there are too many."""
        self.counts.failed += 1
        left_out = self._failures.note(time.monotonic())
        if left_out is not None:
            more = {"left_out": left_out} if left_out else {}
            told = reason_for_log(reason)
            logger.warning("login failed", kind=kind, peer=peer, listener=self.name, reason=told, **more)
