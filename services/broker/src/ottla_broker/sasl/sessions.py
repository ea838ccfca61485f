"""What a connection on a listener with SASL may do, and for how long its login holds. Pure.

`Authentication` is one login: SaslHandshake names the mechanism, then messages of the mechanism follow, in
SaslAuthenticate requests after version 1 of the handshake, as bare frames after version 0. Before that the client may
ask for ApiVersions. Source: Kafka's SaslServerAuthenticator.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ottla_core.principal import Principal
from ottla_core.wire.messages import API_VERSIONS_KEY, api_name

SASL_HANDSHAKE_KEY: Final = 17
SASL_AUTHENTICATE_KEY: Final = 36
ROUNDS_MAX: Final = 4
"""How many messages of a mechanism a login takes at most; the longest, SCRAM, has two."""
VERSION_QUESTIONS_MAX: Final = 4
"""How often a client may ask for ApiVersions; it asks again if its version is not known."""


class Phase(Enum):
    """Where a login is."""

    EXPECTS_HANDSHAKE = auto()
    """No mechanism is chosen; left by `choose`."""
    EXPECTS_REQUESTS = auto()
    """Messages of the mechanism come in SaslAuthenticate requests; left by `end`."""
    EXPECTS_BARE_FRAMES = auto()
    """They come as they are; left by `end`."""
    OVER = auto()
    """Accepted or refused."""


@dataclass(frozen=True, slots=True)
class Login:
    """A login that holds.

    Attributes:
        principal: who the client is.
        mechanism: by which mechanism it said so.
    """

    principal: Principal
    mechanism: str


class Authentication:
    """One login of a connection.

    Args:
        former: the login that is to be renewed; None for the connection's first one.

    Attributes:
        phase: where it is.
        mechanism: the chosen one; empty until then.
        is_failure_noted: whether it was counted as failed, and the client had to wait for it.
    """

    def __init__(self, former: Login | None = None) -> None:
        self.former = former
        self.phase = Phase.EXPECTS_HANDSHAKE
        self.mechanism = ""
        self.is_failure_noted = False
        self._rounds = 0
        self._version_questions = 0

    @property
    def kind(self) -> str:
        """What it is called in messages to clients; Kafka's words."""
        return "authentication" if self.former is None else "re-authentication"

    def why_refused(self, api_key: int) -> str | None:
        """Return why a request is out of turn, None if it is not; it counts."""
        if api_key == API_VERSIONS_KEY and self.phase is Phase.EXPECTS_HANDSHAKE and self.former is None:
            self._version_questions += 1
            too_many = self._version_questions > VERSION_QUESTIONS_MAX
            return "the client asks for ApiVersions again and again" if too_many else None
        if api_key == SASL_HANDSHAKE_KEY and self.phase is Phase.EXPECTS_HANDSHAKE:
            return None
        if api_key == SASL_AUTHENTICATE_KEY and self.phase is Phase.EXPECTS_REQUESTS:
            return self.why_no_round()
        if self.former is None:
            asked = api_name(api_key)
            return f"the client asks for {asked} before it has logged in; its security.protocol may lack SASL"
        return f"the client asks for {api_name(api_key)} before its {self.kind} is done"

    def why_no_round(self) -> str | None:
        """Return why another message of the mechanism is refused, None if it is not; it counts."""
        self._rounds += 1
        return f"more than {ROUNDS_MAX} messages" if self._rounds > ROUNDS_MAX else None

    def why_not_mechanism(self, mechanism: str, enabled: tuple[str, ...]) -> str | None:
        """Return why a mechanism may not be used, None if it may."""
        if mechanism not in enabled:
            return f"the mechanism {mechanism[:40]!r} is not enabled"
        if self.former is not None and mechanism != self.former.mechanism:
            return f"a login by {self.former.mechanism} is to be renewed by {mechanism}"
        return None

    def choose(self, mechanism: str, handshake_version: int) -> None:
        """Go on with a mechanism."""
        self.mechanism = mechanism
        self.phase = Phase.EXPECTS_REQUESTS if handshake_version >= 1 else Phase.EXPECTS_BARE_FRAMES

    def end(self) -> None:
        """Take nothing any more."""
        self.phase = Phase.OVER

    def why_not_principal(self, principal: Principal) -> str | None:
        """Return what to tell a client that renews the login of somebody else, None if it does not."""
        if self.former is None or self.former.principal == principal:
            return None
        return f"Cannot change principals during re-authentication from {self.former.principal}: {principal}"

    def refusal(self) -> str:
        """Return what a client is told that is not believed: Kafka's words, the same for every reason."""
        reason = f"invalid credentials with SASL mechanism {self.mechanism}"
        return f"Authentication failed during {self.kind} due to {reason}"


def session_lifetime_ms(expires_ms: int | None, reauthentication_ms: int, now_ms: int) -> int | None:
    """Return for how long a login holds, None for ever.

    Args:
        expires_ms: when its credential expires, None: never.
        reauthentication_ms: after which it has to be renewed, 0: never.
        now_ms: the time.
    """
    limits = [] if expires_ms is None else [expires_ms - now_ms]
    if reauthentication_ms > 0:
        limits.append(reauthentication_ms)
    return max(0, min(limits)) if limits else None
