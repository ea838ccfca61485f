"""Whom an ID token names, and which tokens name nobody."""

from typing import Any

import pytest

from ottla_console.config.openid_settings import OpenIdSettings
from ottla_console.config.roles import Role
from ottla_console.openid.id_token import SKEW_S, BadIdToken, identity_of

NOW_S = 1_000_000
SETTINGS = OpenIdSettings(
    issuer="https://idp.example",
    client_id="console",
    groups={Role.VIEWER: {"staff"}, Role.EDITOR: {"data"}, Role.ADMIN: {"platform"}},
)


def claims(**others: Any) -> dict[str, Any]:
    told = {
        "iss": "https://idp.example",
        "aud": "console",
        "sub": "ann",
        "iat": NOW_S,
        "exp": NOW_S + 300,
        "nonce": "n",
    }
    return {name: value for name, value in {**told, **others}.items() if value is not None}


def named(settings: OpenIdSettings = SETTINGS, **others: Any) -> tuple[str, Role | None]:
    found = identity_of(claims(**others), settings, "n", NOW_S * 1000)
    return found.user, found.role


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        (["staff"], Role.VIEWER),
        (["staff", "data", "other"], Role.EDITOR),
        ("platform", Role.ADMIN),
        (["other"], None),
        ([["platform"], {"platform": 1}, 7], None),
        ({"platform": True}, None),
        (None, None),
    ],
)
def test_the_highest_role_of_the_groups_counts(groups: object, role: Role | None) -> None:
    assert named(groups=groups) == ("ann", role)


def test_everybody_and_groups_within_objects_can_be_named() -> None:
    nested = OpenIdSettings(
        issuer="https://idp.example",
        client_id="console",
        groups_claim="realm_access.roles",
        groups={Role.VIEWER: {"*"}, Role.ADMIN: {"platform"}},
    )
    assert named(nested) == ("ann", Role.VIEWER)
    assert named(nested, realm_access={"roles": ["platform"]}) == ("ann", Role.ADMIN)
    assert named(nested, realm_access="platform") == ("ann", Role.VIEWER)


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ({"iss": "https://other.example"}, "another issuer"),
        ({"iss": "https://idp.example/"}, "another issuer"),
        ({"aud": "other"}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"aud": ["console", "other"]}, "another client"),
        ({"azp": "other"}, "another client"),
        ({"nonce": None}, "another attempt"),
        ({"nonce": "m"}, "another attempt"),
        ({"nonce": ["n"]}, "another attempt"),
        ({"exp": NOW_S - SKEW_S - 1}, "expired"),
        ({"exp": None}, "until when"),
        ({"exp": "never"}, "until when"),
        ({"iat": NOW_S + SKEW_S + 1}, "in the future"),
        ({"nbf": NOW_S + SKEW_S + 1}, "not hold yet"),
        ({"sub": None}, "names nobody"),
    ],
)
def test_what_is_not_for_this_sign_in_names_nobody(others: dict[str, Any], told: str) -> None:
    with pytest.raises(BadIdToken, match=told):
        named(**others)


def test_of_several_audiences_the_token_says_that_it_was_made_for_this_client() -> None:
    assert named(aud=["console", "other"], azp="console") == ("ann", None)


@pytest.mark.parametrize(
    ("claim", "others"),
    [
        ("name", {}),
        ("name", {"name": 7}),
        ("name", {"name": " "}),
        ("name", {"name": "ann\x1b[2J"}),
        ("name", {"name": "a" * 201}),
        ("email", {"email": "ann@example.org"}),
        ("email", {"email": "ann@example.org", "email_verified": "true"}),
    ],
)
def test_a_name_that_cannot_be_used_is_told(claim: str, others: dict[str, Any]) -> None:
    settings = OpenIdSettings(issuer="https://idp.example", client_id="console", name_claim=claim)
    with pytest.raises(BadIdToken, match=claim):
        named(settings, **others)


def test_an_address_that_was_verified_can_be_the_name() -> None:
    settings = OpenIdSettings(issuer="https://idp.example", client_id="console", name_claim="email")
    assert named(settings, email="ann@example.org", email_verified=True)[0] == "ann@example.org"
