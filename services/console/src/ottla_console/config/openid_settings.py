"""Which OpenID provider signs users in, and what its claims make of them. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from ottla_console.config.roles import Role

CALLBACK: Final = "/openid/callback"
OPENID_SCOPE: Final = "openid"
EVERYBODY: Final = "*"
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIdSettings:
    """A provider.

    Attributes:
        issuer: its URL, exactly as its tokens have it.
        client_id: by which it knows the console.
        client_secret: likewise; None for a public client, which shows that it began a sign-in by PKCE alone.
        scopes: that are asked for.
        name_claim: which claim of the ID token is the user's name.
        groups_claim: which has the user's groups; dots lead into objects.
        groups: which of them give a role; `*` stands for everybody.
        authorities: file with the authorities of the provider's certificate; None for the system's.
        redirect_uri: the console's own address to which the provider sends browsers back.
    """

    issuer: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] = (OPENID_SCOPE, "profile")
    name_claim: str = "sub"
    groups_claim: str = "groups"
    groups: Mapping[Role, Collection[str]] = field(default_factory=dict)
    authorities: str | None = None
    redirect_uri: str = ""

    @property
    def host(self) -> str:
        """The provider as pages call it."""
        return urlsplit(self.issuer).netloc

    def role_of(self, groups: Collection[str]) -> Role | None:
        """Return the highest role of somebody in these groups; None if there is none."""
        found = [
            role for role, named in self.groups.items() if EVERYBODY in named or any(each in named for each in groups)
        ]
        return max(found, default=None)


def problem_of_address(url: str) -> str | None:
    """Return why a provider is not asked at a URL; None if it is: by TLS, or on this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return None
    if parts.scheme == "http" and parts.hostname in LOOPBACK:
        return None
    return "it is no https URL"
