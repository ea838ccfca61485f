"""The broker's own answers to the hooks that plugins answer as well."""

from collections.abc import Sequence
from typing import Any

from ottla_broker.client_plugins.default_principals import DefaultKafkaPrincipalBuilder
from ottla_broker.client_plugins.standard_authorizer import StandardAuthorizer
from ottla_sdk.broker import Authorizer, PrincipalBuilder
from ottla_sdk.hookspecs import hookimpl


@hookimpl
def ottla_authorizers() -> Sequence[type[Authorizer[Any]]]:
    """Return the authorizer that goes by access control lists."""
    return [StandardAuthorizer]


@hookimpl
def ottla_principal_builders() -> Sequence[type[PrincipalBuilder[Any]]]:
    """Return the builder that takes principals as clients have proved them."""
    return [DefaultKafkaPrincipalBuilder]
