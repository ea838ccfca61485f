"""What brokers ask this plugin; pyproject.toml names this module as an entry point."""

from collections.abc import Sequence
from typing import Any

from ottla_example_teams.domain_users import DomainUsers
from ottla_example_teams.team_authorizer import TeamAuthorizer
from ottla_sdk import Authorizer, PrincipalBuilder, hookimpl


@hookimpl
def ottla_authorizers() -> Sequence[type[Authorizer[Any]]]:
    """Return the authorizers of this plugin."""
    return [TeamAuthorizer]


@hookimpl
def ottla_principal_builders() -> Sequence[type[PrincipalBuilder[Any]]]:
    """Return the builders of principals of this plugin."""
    return [DomainUsers]
