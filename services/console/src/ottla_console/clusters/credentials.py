"""What a user's connections to a cluster are made with: a name and password, a bearer token, or the console's own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from ottla_console.config.roles import Role
from ottla_console.openid.access_tokens import AccessTokens

TOKEN_SETTINGS: Final = "sasl.oauthbearer."  # noqa: S105 - names of settings
"""Librdkafka's settings of a token endpoint begin so."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A name and password of the cluster; its access control lists are the rights."""

    user: str
    password: str = field(repr=False)

    role: ClassVar[None] = None
    is_limited: ClassVar[bool] = False
    has_ended: ClassVar[bool] = False

    def in_settings(self, client: Mapping[str, Any]) -> dict[str, Any]:
        """Return a client's settings with these credentials."""
        return {**client, "sasl.username": self.user, "sasl.password": self.password}

    def end(self) -> None:
        """The user has signed out."""


@dataclass(frozen=True, slots=True)
class RoleLogin:
    """The console's own credentials, used for somebody within a role.

    Attributes:
        user: who, for the audit log.
        role: what the console lets that user do; None: nothing.
    """

    user: str
    role: Role | None

    is_limited: ClassVar[bool] = True
    has_ended: ClassVar[bool] = False

    def in_settings(self, client: Mapping[str, Any]) -> dict[str, Any]:
        """Return a client's settings, as they are."""
        return dict(client)

    def end(self) -> None:
        """The user has signed out."""


@dataclass(frozen=True, slots=True)
class TokenLogin:
    """A user's own bearer token; the cluster's access control lists are the rights.

    Attributes:
        user: who, for the audit log.
        role: what the console lets that user have workers do, who know no users; None: nothing.
        tokens: where the token comes from.
    """

    user: str
    role: Role | None
    tokens: AccessTokens = field(repr=False)

    is_limited: ClassVar[bool] = False

    @property
    def has_ended(self) -> bool:
        """Whether the user has to sign in again."""
        return self.tokens.has_ended

    def in_settings(self, client: Mapping[str, Any]) -> dict[str, Any]:
        """Return a client's settings with a function that gives the token."""
        others = {key: value for key, value in client.items() if not key.startswith(TOKEN_SETTINGS)}
        return {**others, "sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda _: self.tokens.current()}

    def end(self) -> None:
        """The user has signed out."""
        self.tokens.end()


Login = Credentials | RoleLogin | TokenLogin
