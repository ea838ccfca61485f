"""Tokens for OAUTHBEARER, asked of an OAuth server by client credentials (RFC 6749, section 4.4; KIP-768).

By librdkafka's names of the settings: `sasl.oauthbearer.token.endpoint.url`, `.client.id`, `.client.secret`,
`.scope`, `.extensions`, and `https.ca.location` or `https.ca.pem` for whom to trust there. A token serves several
connections until it has little left of its life.
"""

import base64
import json
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from ottla_core.client.errors import AuthenticationFailed, Unreachable, reason_of
from ottla_core.client.security import OAUTHBEARER, Login
from ottla_core.errors import ConfigurationError

PREFIX: Final = "sasl.oauthbearer."
URL_KEY: Final = f"{PREFIX}token.endpoint.url"
ANSWER_BYTES_MAX: Final = 1024 * 1024
LIFE_SHARE: Final = 0.8
"""After this part of its life a token is used for no new connection, as Java's clients do it."""
LIFE_S_MAX: Final = 24 * 3600.0
"""Whatever an endpoint says: who was shut out there should not stay in for ever."""
_MUST_BE: Final = {
    f"{PREFIX}method": "oidc",
    f"{PREFIX}grant.type": "client_credentials",
    f"{PREFIX}metadata.authentication.type": "none",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEndpoint:
    """Where tokens come from, and who asks."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = field(default=None, compare=False)

    @classmethod
    def of(cls, client: Mapping[str, str]) -> "TokenEndpoint":
        """Return what a client's settings say.

        Raises:
            ConfigurationError: something is missing, or asks for another way to a token.
        """
        for key, value in _MUST_BE.items():
            if client.get(key, value).lower() != value:
                raise ConfigurationError(f"{key}: {client[key]} is not supported here; {value} is")
        wanted = (URL_KEY, f"{PREFIX}client.id", f"{PREFIX}client.secret")
        if missing := [key for key in wanted if not client.get(key)]:
            raise ConfigurationError(f"{' and '.join(missing)}: must be set for OAUTHBEARER")
        url, client_id, secret = (client[key] for key in wanted)
        if not url.lower().startswith(("http://", "https://")):
            raise ConfigurationError(f"{URL_KEY}: it is no http or https address")
        address = urlsplit(url)
        if "@" in address.netloc:
            raise ConfigurationError(
                f"{URL_KEY}: the address, at {address.hostname}, has a login in it, which would not be sent; "
                f"{PREFIX}client.id and {PREFIX}client.secret are"
            )
        return cls(
            url=url,
            client_id=client_id,
            client_secret=secret,
            scope=client.get(f"{PREFIX}scope", ""),
            extensions=_extensions(client.get(f"{PREFIX}extensions", "")),
            tls=_tls(client) if url.lower().startswith("https://") else None,
        )


class EndpointTokens:
    """The tokens of one endpoint; threads may share it."""

    def __init__(self, endpoint: TokenEndpoint) -> None:
        self.endpoint = endpoint
        self._token = ""
        self._usable_until_s = 0.0
        self._one_at_a_time = threading.Lock()

    def login(self, timeout_s: float) -> Login:
        """Return the login for a new connection; errors as those of `current`."""
        return Login(
            mechanism=OAUTHBEARER,
            username=self.endpoint.client_id,
            password=self.current(timeout_s),
            extensions=self.endpoint.extensions,
        )

    def current(self, timeout_s: float) -> str:
        """Return a token that is good for a new connection.

        Raises:
            AuthenticationFailed: the endpoint does not give this client one.
            Unreachable: it does not answer, or is out of order.
        """
        with self._one_at_a_time:
            asked_s = time.monotonic()
            if asked_s >= self._usable_until_s:
                self._token, life_s = _ask(self.endpoint, timeout_s)
                self._usable_until_s = asked_s + life_s * LIFE_SHARE
            return self._token


def _ask(endpoint: TokenEndpoint, timeout_s: float) -> tuple[str, float]:
    """Return a token and its life in seconds."""
    import urllib.request  # noqa: PLC0415 - needed with tokens only
    from http.client import HTTPException  # noqa: PLC0415
    from urllib.error import HTTPError, URLError  # noqa: PLC0415
    from urllib.parse import urlencode  # noqa: PLC0415

    class NoRedirects(urllib.request.HTTPRedirectHandler):
        """Another address must not be sent the secret."""

        def redirect_request(self, *_: Any) -> None:
            """Have it be an error."""

    login = base64.b64encode(f"{endpoint.client_id}:{endpoint.client_secret}".encode()).decode()
    form = {"grant_type": "client_credentials"} | ({"scope": endpoint.scope} if endpoint.scope else {})
    request = urllib.request.Request(  # noqa: S310 - `TokenEndpoint.of` has looked at the scheme
        endpoint.url,
        data=urlencode(form).encode(),
        headers={"Authorization": f"Basic {login}", "Accept": "application/json"},
    )
    opener = urllib.request.build_opener(NoRedirects, urllib.request.HTTPSHandler(context=endpoint.tls))
    try:
        with opener.open(request, timeout=timeout_s) as response:
            return _read_token(endpoint, response.read(ANSWER_BYTES_MAX))
    except HTTPError as error:
        with error:
            if 400 <= error.code < 500:
                raise AuthenticationFailed(
                    f"{endpoint.url} gives no token to {endpoint.client_id}: {error.code} {error.reason}"
                ) from None
            raise Unreachable(f"{endpoint.url} ({error.code} {error.reason})") from None
    except URLError as error:
        reason = reason_of(error.reason) if isinstance(error.reason, Exception) else error.reason
        raise Unreachable(f"{endpoint.url} ({reason})") from None
    except (OSError, UnicodeError, HTTPException) as error:
        raise Unreachable(f"{endpoint.url} ({reason_of(error)})") from None


def _read_token(endpoint: TokenEndpoint, answer: bytes) -> tuple[str, float]:
    try:
        described = json.loads(answer)
        token, life_s = described["access_token"], float(described.get("expires_in", 0))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise Unreachable(f"{endpoint.url} (what answers there gives no token)") from None
    # RFC 6750's characters: others could end the message in which the token is told, and begin something else.
    if not isinstance(token, str) or not token or not set(token) <= _TOKEN_CHARACTERS:
        raise Unreachable(f"{endpoint.url} (what answers there gives no token)")
    return token, min(max(0.0, life_s), LIFE_S_MAX)  # in this order, a NaN becomes 0


_TOKEN_CHARACTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=")


def _extensions(text: str) -> dict[str, str]:
    pairs = [each.partition("=") for each in text.split(",") if each.strip()]
    named = {name.strip() for name, equals, value in pairs if equals and value.isprintable()}
    if len(named) < len(pairs) or "auth" in named or not all(name.isascii() and name.isalpha() for name in named):
        raise ConfigurationError(f"{PREFIX}extensions: write it as name=value,name=value, with letters as names")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _tls(client: Mapping[str, str]) -> ssl.SSLContext:
    location, text = client.get("https.ca.location"), client.get("https.ca.pem")
    try:
        return ssl.create_default_context(cafile=location if not text else None, cadata=text or None)
    except OSError as error:
        raise ConfigurationError(f"https.ca.{'pem' if text else f'location {location}'}: {error}") from None
