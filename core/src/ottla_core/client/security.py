"""How a connection is secured, by librdkafka's names of the settings.

`security.protocol`, `sasl.mechanism`, `sasl.username` and `sasl.password`; what begins with `ssl.` is in `tls.py`,
and what OAUTHBEARER needs in `token_endpoint.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from ottla_core.errors import ConfigurationError

if TYPE_CHECKING:
    import ssl

OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
_PROTOCOLS: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_DEFAULT_MECHANISM: Final = "GSSAPI"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Who we are to the brokers.

    Attributes:
        mechanism: one of `MECHANISMS`.
        username: the user's name; with OAUTHBEARER who asks for tokens, for messages.
        password: the password; with OAUTHBEARER the token.
        extensions: what OAUTHBEARER tells besides (KIP-342).
    """

    mechanism: str
    username: str
    password: str = field(repr=False)
    extensions: Mapping[str, str] = field(default_factory=dict)


class Tokens(Protocol):
    """Where the tokens of OAUTHBEARER come from."""

    def login(self, timeout_s: float) -> Login:
        """Return the login for a new connection, for which a token may be asked for; it blocks.

        Raises:
            AuthenticationFailed: no token is given to us.
            Unreachable: who gives them does not answer.
        """


@dataclass(frozen=True, slots=True)
class GivenTokens:
    """A user's tokens that somebody else looks after: `token` returns one that is good now; errors as of `login`."""

    user: str
    token: Callable[[], str] = field(repr=False)

    def login(self, timeout_s: float) -> Login:
        """Return the login for a new connection."""
        return Login(mechanism=OAUTHBEARER, username=self.user, password=self.token())


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """What a connection is made with.

    Attributes:
        tls: the TLS context; None for connections without TLS.
        login: name and password; None where there is no SASL, and where tokens say who we are.
        tokens: where these come from; None without OAUTHBEARER.
    """

    tls: "ssl.SSLContext | None" = None
    login: Login | None = None
    tokens: Tokens | None = None

    @classmethod
    def of(cls, client: Mapping[str, str], given: GivenTokens | None = None) -> "ClientSecurity":
        """Return what a client's settings say; those that are about other things are passed over.

        Args:
            client: the settings.
            given: tokens for OAUTHBEARER, instead of those of an endpoint in the settings.

        Raises:
            ConfigurationError: something is missing, not supported, or a file cannot be used.
        """
        protocol = client.get("security.protocol", "plaintext").lower()
        if protocol not in _PROTOCOLS:
            raise ConfigurationError(f"security.protocol: {protocol} is unknown; {', '.join(_PROTOCOLS)} are not")
        login, tokens = _login_and_tokens(client, given) if protocol.startswith("sasl") else (None, None)
        if not protocol.endswith("ssl"):
            return cls(login=login, tokens=tokens)
        from ottla_core.client.tls import tls_context  # noqa: PLC0415 - see the package

        return cls(tls=tls_context(client), login=login, tokens=tokens)

    def login_now(self, timeout_s: float) -> Login | None:
        """Return the login for a new connection; a token is asked for, which takes up to `timeout_s`.

        Raises:
            AuthenticationFailed: no token is given to us.
            Unreachable: the token endpoint does not answer.
        """
        return self.login if self.tokens is None else self.tokens.login(timeout_s)


def _login_and_tokens(client: Mapping[str, str], given: GivenTokens | None) -> tuple[Login | None, Tokens | None]:
    mechanism = client.get("sasl.mechanism") or client.get("sasl.mechanisms") or _DEFAULT_MECHANISM
    if mechanism.upper() not in MECHANISMS:
        raise ConfigurationError(f"sasl.mechanism: {mechanism} is not supported here; {', '.join(MECHANISMS)} are")
    if mechanism.upper() == OAUTHBEARER:
        if given is not None:
            return None, given
        from ottla_core.client.token_endpoint import EndpointTokens, TokenEndpoint  # noqa: PLC0415 - see the package

        return None, EndpointTokens(TokenEndpoint.of(client))
    missing = [key for key in ("sasl.username", "sasl.password") if not client.get(key)]
    if missing:
        raise ConfigurationError(f"{' and '.join(missing)}: must be set for {mechanism}")
    login = Login(mechanism=mechanism.upper(), username=client["sasl.username"], password=client["sasl.password"])
    return login, None
