"""What the claims of a bearer token have to say (RFC 7519), as in Kafka's validator (KIP-768). Pure.

Whether the signature is right is looked at before; see `token_check.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SECONDS_MAX = 2**43
"""A time beyond this is no time of a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRules:
    """What a listener wants of tokens.

    Attributes:
        audiences: of which a token must be for one; empty: any.
        issuer: who must have issued it; None: anybody whose key is known.
        subject_claim: which claim names the client.
        scope_claim: which claim has the scopes.
        skew_s: seconds by which clocks may differ.
    """

    audiences: frozenset[str]
    issuer: str | None
    subject_claim: str
    scope_claim: str
    skew_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerSettings:
    """Whose tokens are accepted, and what they have to say.

    Attributes:
        jwks_url: of the keys.
        authorities: file with the authorities of that URL's certificate, in PEM; empty: those of the system.
        refresh_ms: how old the keys may become.
        rules: what tokens have to say.
    """

    jwks_url: str
    authorities: str
    refresh_ms: int
    rules: ClaimRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What was found out about a token.

    Attributes:
        subject: whom it names; None: it is not accepted.
        expires_ms: when it expires.
        reason: why it is not accepted, for the log; nothing of the token's text.
    """

    subject: str | None = None
    expires_ms: int | None = None
    reason: str = ""


def judge_claims(claims: Mapping[str, Any], rules: ClaimRules, now_ms: int) -> Judgement:
    """Return what follows from the claims of a token whose signature is right."""
    expires_s, issued_s, not_before_s = (_seconds(claims.get(name)) for name in ("exp", "iat", "nbf"))
    now_s = now_ms / 1000
    if expires_s is None or issued_s is None:
        return Judgement(reason="the token does not say until when it holds (exp), or when it was issued (iat)")
    if now_s > expires_s + rules.skew_s:
        return Judgement(reason=f"the token expired {now_s - expires_s:.0f} s ago")
    if issued_s > now_s + rules.skew_s:
        return Judgement(reason="the token was issued in the future")
    if "nbf" in claims and (not_before_s is None or not_before_s > now_s + rules.skew_s):
        return Judgement(reason="the token does not hold yet (nbf)")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        return Judgement(reason="the token is of another issuer (iss)")
    if rules.audiences and not rules.audiences & _texts(claims.get("aud")):
        return Judgement(reason="the token is for another audience (aud)")
    if rules.scope_claim in claims and not isinstance(claims[rules.scope_claim], (str, list)):
        return Judgement(reason=f"the token's {rules.scope_claim} is no scope")
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        return Judgement(reason=f"the token names nobody ({rules.subject_claim})")
    return Judgement(subject=subject.strip(), expires_ms=int(expires_s * 1000))


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _SECONDS_MAX:
        return None
    return float(value)


def _texts(value: object) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset({value})
    return frozenset(each for each in value if isinstance(each, str)) if isinstance(value, list) else frozenset()
