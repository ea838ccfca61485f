"""Who an ID token says has signed in (OpenID Connect Core 1.0, section 3.1.3.7). Pure.

That a key of the provider has signed it is looked at before.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla_console.config.openid_settings import OpenIdSettings
from ottla_console.config.roles import Role
from ottla_core.tokens.token_claims import ClaimRules, judge_claims

SKEW_S: Final = 60
NAME_CHARACTERS_MAX: Final = 200
GROUPS_MAX: Final = 10_000


class BadIdToken(Exception):
    """A token does not say who has signed in here; the message says why, and has nothing secret."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody who has signed in; without a role where no group gives one."""

    user: str
    role: Role | None


def identity_of(claims: Mapping[str, Any], settings: OpenIdSettings, nonce: str, now_ms: int) -> Identity:
    """Return whom the claims of an ID token name.

    Args:
        claims: of a token that the provider has signed.
        settings: the provider's.
        nonce: of the attempt to sign in that it has to be for.
        now_ms: milliseconds since 1970.

    Raises:
        BadIdToken: it is of another issuer, for another client or another attempt, or too old; or has no usable name.
    """
    rules = ClaimRules(
        audiences=frozenset({settings.client_id}),
        issuer=settings.issuer,
        subject_claim="sub",
        scope_claim="scope",
        skew_s=SKEW_S,
    )
    judgement = judge_claims(claims, rules, now_ms)
    if judgement.subject is None:
        raise BadIdToken(judgement.reason)
    told = claims.get("nonce")
    # Without it a token that was stolen from another sign-in could be slipped into this one.
    if not isinstance(told, str) or not hmac.compare_digest(told.encode(), nonce.encode()):
        raise BadIdToken("the token is for another attempt to sign in (nonce)")
    authorized, audiences = claims.get("azp"), claims.get("aud")
    is_shared = isinstance(audiences, list) and len(audiences) > 1
    if authorized != settings.client_id and (authorized is not None or is_shared):
        raise BadIdToken("the token was made for another client (azp)")
    return Identity(_name(claims, settings.name_claim), settings.role_of(_groups(claims, settings.groups_claim)))


def _name(claims: Mapping[str, Any], claim: str) -> str:
    name = claims.get(claim)
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > NAME_CHARACTERS_MAX:
        raise BadIdToken(
            f"the token has no usable name ({claim}); the setting oidc.name.claim says which claim it is"
        )
    if claim == "email" and claims.get("email_verified") is not True:
        raise BadIdToken("the token's email address is not verified (email_verified)")
    return name.strip()


def _groups(claims: Mapping[str, Any], claim: str) -> frozenset[str]:
    found: Any = claims.get(claim)
    if found is None:
        found = claims
        for word in claim.split("."):
            found = found.get(word) if isinstance(found, dict) else None
    if isinstance(found, str):
        return frozenset({found})
    return (
        frozenset(each for each in found[:GROUPS_MAX] if isinstance(each, str))
        if isinstance(found, list)
        else frozenset()
    )
