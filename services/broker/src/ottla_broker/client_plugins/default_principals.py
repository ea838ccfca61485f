"""Kafka's DefaultKafkaPrincipalBuilder: the user of a login, or the name in a certificate. Pure."""

from typing import Any

from ottla_broker.client_plugins.principals import NO_RULE
from ottla_sdk.broker import AuthenticatedClient, Principal, PrincipalBuilder, PrincipalRefused


class DefaultKafkaPrincipalBuilder(PrincipalBuilder[Any]):
    """Names clients by what they have proved."""

    aliases = ("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",)

    def build(self, client: AuthenticatedClient) -> Principal:
        """Return the user, by the rules for certificates where it is one's."""
        if client.default is None:
            raise PrincipalRefused(NO_RULE)
        return client.default
