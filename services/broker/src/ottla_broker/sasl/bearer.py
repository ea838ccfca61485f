"""OAUTHBEARER (RFC 7628) on the server's side: the client shows a token, which somebody else has signed. Pure.

A token that is not accepted is answered with a challenge that says so, as the RFC asks; the client's next message
ends the exchange.
"""

import re
from enum import Enum, auto
from typing import Final

from ottla_broker.sasl.exchange import Accepted, Challenge, Refused, TokenShown
from ottla_core.principal import USER, Principal
from ottla_core.tokens.token_claims import Judgement

MESSAGE_BYTES_MAX: Final = 64 * 1024
"""Longest message: tokens with many claims have some kilobytes."""

_NAME: Final = "(?:[^=,\0\x01]|=2C|=3D)+"
_INITIAL: Final = re.compile(f"n,(?:a=(?P<authorization>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[^\x01]*\x01)+)\x01")
_BEARER: Final = re.compile(r"bearer +(?P<token>[A-Za-z0-9._~+/=-]+)", re.IGNORECASE)
_CLIENT_GIVES_UP: Final = b"\x01"
_REFUSAL: Final = b'{"status":"invalid_token"}'


class _State(Enum):
    """Where an exchange is."""

    EXPECTS_TOKEN = auto()
    """Nothing was said; left by the client's message."""
    JUDGES = auto()
    """The token is being judged; left by `judge`."""
    IS_REFUSED = auto()
    """The client was told that the token is refused; left by its next message, whatever that is."""
    OVER = auto()
    """Accepted or refused."""


class Bearer:
    """One authentication."""

    def __init__(self) -> None:
        self._state = _State.EXPECTS_TOKEN
        self._authorization = ""
        self._reason = ""

    def respond(self, message: bytes) -> TokenShown | Refused:
        """Take a message of the client."""
        state, self._state = self._state, _State.OVER
        if state is _State.IS_REFUSED:
            return Refused(self._reason if message == _CLIENT_GIVES_UP else f"{self._reason}; the client goes on")
        if state is not _State.EXPECTS_TOKEN:
            return Refused("a message out of turn")
        if len(message) > MESSAGE_BYTES_MAX:
            return Refused(f"a message of {len(message)} bytes")
        try:
            matched = _INITIAL.fullmatch(message.decode())
        except UnicodeDecodeError:
            return Refused("the message is not UTF-8")
        if matched is None:
            return Refused("the message is none of OAUTHBEARER")
        pairs = [each.partition("=") for each in matched["pairs"].split("\x01") if each]
        shown = [_BEARER.fullmatch(value) for name, _, value in pairs if name == "auth"]
        if len(shown) != 1 or shown[0] is None:
            return Refused("the message shows no bearer token")
        self._authorization = (matched["authorization"] or "").replace("=2C", ",").replace("=3D", "=")
        self._state = _State.JUDGES
        return TokenShown(shown[0]["token"])

    def judge(self, judgement: Judgement) -> Accepted | Challenge | Refused:
        """Take what was found out about the token."""
        assert self._state is _State.JUDGES
        if judgement.subject is None:
            self._state, self._reason = _State.IS_REFUSED, judgement.reason
            return Challenge(_REFUSAL, refusal=judgement.reason)
        self._state = _State.OVER
        if self._authorization and self._authorization != judgement.subject:
            return Refused(f"the token of {judgement.subject!r} is shown for {self._authorization!r}")
        return Accepted(principal=Principal(USER, judgement.subject), expires_ms=judgement.expires_ms)
