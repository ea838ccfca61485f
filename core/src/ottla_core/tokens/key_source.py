"""The keys that sign bearer tokens, read from a URL or a file and kept (KIP-768).

They are read when the first token comes, anew when they are too old, and when a token names a key that is not among
them; for this at most once in `RETRY_SECONDS`, whatever clients send. One read is under way at a time, in a thread;
it belongs to no login, so that a client which leaves meanwhile takes the keys from nobody else. While the keys cannot
be read, the former ones stay in use, and the log says why.
"""

import asyncio
import ssl
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import unquote, urlsplit

import structlog

from ottla_core.background import start_detached
from ottla_core.clock import Clock
from ottla_core.errors import ConfigurationError
from ottla_core.tokens.token_check import BadKeySetError, BadTokenError, SigningKeys, key_id_of, read_key_set
from ottla_core.tokens.token_check import verified_claims as verified_claims_of
from ottla_core.tokens.token_claims import BearerSettings, Judgement, judge_claims

RETRY_SECONDS: Final = 10.0
READ_SECONDS_MAX: Final = 10.0
CONTENT_BYTES_MAX: Final = 1024 * 1024

logger = structlog.get_logger("tokens")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The keys come from the address in the settings and from no other."""

    def redirect_request(self, *_: Any) -> None:
        """Have it be an error."""


class BearerTokens:
    """Judges tokens.

    Args:
        settings: of the listener.
        clock: says when tokens expire, and how old the keys are.

    Raises:
        ConfigurationError: the address cannot be used, or the authorities cannot be read.
    """

    def __init__(self, settings: BearerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._read = _reader(settings)
        self._keys: SigningKeys | None = None
        self._read_at = -RETRY_SECONDS
        self._tried_at = -RETRY_SECONDS
        self._reading: asyncio.Task[None] | None = None

    async def judge(self, token: str) -> Judgement:
        """Return whom a token names, or why it is not accepted."""
        try:
            return judge_claims(await self.claims_of(token), self._settings.rules, self._clock.time_ms())
        except BadTokenError as error:
            return Judgement(reason=str(error))

    async def claims_of(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token that one of the keys has signed; what they say is the caller's to judge.

        Raises:
            BadTokenError: none of them has, or they cannot be read.
        """
        keys = await self._keys_for(key_id_of(token))
        if keys is None:
            raise BadTokenError("the keys that sign tokens cannot be read, as the log says")
        return verified_claims_of(token, keys)

    async def _keys_for(self, key_id: str | None) -> SigningKeys | None:
        now = self._clock.monotonic()
        may_read = now - self._tried_at >= RETRY_SECONDS
        if self._keys is None or not self._keys.has(key_id):
            if may_read or self._reading is not None:
                # Shielded, or the client that was first could end the read for all by closing its connection.
                await asyncio.shield(self._reading or self._begin_reading(now))
        elif now - self._read_at > self._settings.refresh_ms / 1000 and may_read and self._reading is None:
            self._begin_reading(now)  # meanwhile the former keys are good
        return self._keys

    def _begin_reading(self, now: float) -> asyncio.Task[None]:
        self._tried_at = now
        self._reading = start_detached("keys of tokens", self._refresh(now))
        return self._reading

    async def _refresh(self, began_at: float) -> None:
        try:
            self._keys = await asyncio.to_thread(self._read)
        except (BadKeySetError, OSError, HTTPException, ValueError) as error:
            reason = error.reason if isinstance(error, URLError) else error
            logger.error("the keys of tokens cannot be read", url=self._settings.jwks_url, problem=str(reason))
        else:
            self._read_at = began_at
        finally:
            self._reading = None


def _reader(settings: BearerSettings) -> Callable[[], SigningKeys]:
    """Return what reads the keys; it blocks.

    Raises:
        ConfigurationError: the address has a login in it, or the authorities cannot be read.
    """
    address = urlsplit(settings.jwks_url)
    if "@" in address.netloc:
        raise ConfigurationError(
            f"the address of the keys of tokens, at {address.hostname}, has a login in it, which would not be sent "
            "and would stand in the log; leave it out"
        )
    if address.scheme == "file":
        path = Path(unquote(address.path))
        return lambda: read_key_set(_content_of(path))
    context = _context(settings.authorities) if address.scheme == "https" else None
    opener = urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=context))

    def read() -> SigningKeys:
        with opener.open(settings.jwks_url, timeout=READ_SECONDS_MAX) as response:
            return read_key_set(response.read(CONTENT_BYTES_MAX))

    return read


def _content_of(path: Path) -> bytes:
    with path.open("rb") as opened:
        return opened.read(CONTENT_BYTES_MAX)


def _context(authorities: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=authorities or None)
    except OSError as error:
        raise ConfigurationError(f"{authorities}: no certificates in PEM ({error})") from None
