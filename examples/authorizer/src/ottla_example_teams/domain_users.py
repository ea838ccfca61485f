"""DomainUsers: users of one domain are called by their names alone, those of others are refused."""

from ottla_sdk import AuthenticatedClient, PluginConfig, Principal, PrincipalBuilder, PrincipalRefused, setting


class DomainUsersConfig(PluginConfig):
    """Settings of DomainUsers."""

    domain: str = setting("principal.builder.domain", doc="The domain, such as example.com.", min_length=1)


class DomainUsers(PrincipalBuilder[DomainUsersConfig]):
    """Calls `ann@example.com` the principal `User:ann`."""

    config_model = DomainUsersConfig

    def build(self, client: AuthenticatedClient) -> Principal:
        """Return the principal of a client; one without a login or certificate stays anonymous.

        Raises:
            PrincipalRefused: its user is of another domain.
        """
        if client.default is None:
            raise PrincipalRefused("its certificate has no name")
        if not client.mechanism and client.certificate is None:
            return client.default
        user, at, domain = client.default.name.rpartition("@")
        if not at or domain != self.config.domain:
            raise PrincipalRefused(f"{client.default.name} is no user of {self.config.domain}")
        return Principal("User", user)
