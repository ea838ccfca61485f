"""What a token endpoint answers (RFC 6749, section 5; OpenID Connect Core 1.0, section 3.1.3.3). Pure."""

import json
import math
import string
from dataclasses import dataclass, field
from typing import Any, Final

LIFE_S_UNTOLD: Final = 300.0
"""How long an access token is taken to be good whose life is not told."""
LIFE_S_MAX: Final = 86_400.0
REFUSAL_CHARACTERS_MAX: Final = 300
_TOKEN: Final = frozenset(string.ascii_letters + string.digits + "-._~+/=")
"""RFC 6750's characters: others could end the message in which a token is told, and begin something else."""


class BadTokenAnswer(Exception):
    """There are no tokens in an answer; the message has nothing secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAnswer:
    """Tokens.

    Attributes:
        access_token: for the cluster, where it takes tokens.
        life_s: seconds for which it is good.
        id_token: who has signed in; None after a refresh.
        refresh_token: for newer ones, or None.
    """

    access_token: str = field(repr=False)
    life_s: float
    id_token: str | None = field(default=None, repr=False)
    refresh_token: str | None = field(default=None, repr=False)


def token_answer(content: bytes) -> TokenAnswer:
    """Return the tokens of an answer.

    Raises:
        BadTokenAnswer: it has no access token that can be shown to others.
    """
    answer = _object(content)
    access_token = answer.get("access_token")
    if not isinstance(access_token, str) or not access_token or not set(access_token) <= _TOKEN:
        raise BadTokenAnswer("its answer has no access token")
    if str(answer.get("token_type", "")).lower() != "bearer":
        raise BadTokenAnswer("its token is no bearer token")
    return TokenAnswer(
        access_token=access_token,
        life_s=_life_s(answer.get("expires_in")),
        id_token=_text(answer.get("id_token")),
        refresh_token=_text(answer.get("refresh_token")),
    )


def refusal_of(content: bytes) -> str:
    """Return what an error says, on one line; empty if it says nothing."""
    answer = _object(content)
    said = ": ".join(text for name in ("error", "error_description") if (text := _text(answer.get(name))))
    return " ".join(said.split())[:REFUSAL_CHARACTERS_MAX]


def _object(content: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _life_s(told: object) -> float:
    try:
        life_s = float(told) if isinstance(told, int | float | str) else LIFE_S_UNTOLD
    except (ValueError, OverflowError):
        return LIFE_S_UNTOLD
    return min(max(life_s, 0.0), LIFE_S_MAX) if math.isfinite(life_s) else LIFE_S_UNTOLD


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
