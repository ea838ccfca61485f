"""Kafka's StandardAuthorizer: super users, and the access control lists of the cluster. Pure."""

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator

from ottla_broker.client_plugins.finding import ALLOWS_WITHOUT_LISTS, SUPER_USERS
from ottla_sdk.broker import AccessRequest, Authorizer, Principal
from ottla_sdk.config import PluginConfig, setting


def _split(value: Any) -> Iterable[str]:
    return tuple(filter(None, map(str.strip, value.split(";")))) if isinstance(value, str) else value


class StandardAuthorizerConfig(PluginConfig):
    """Settings of the broker by which it goes."""

    super_users: Annotated[tuple[str, ...], BeforeValidator(_split)] = setting(
        SUPER_USERS, (), doc="Principals that may do everything, as TYPE:NAME, separated by semicolons."
    )
    allows_without_lists: bool = setting(
        ALLOWS_WITHOUT_LISTS, False, doc="Whether everybody may do everything with a resource that has no list."
    )


class StandardAuthorizer(Authorizer[StandardAuthorizerConfig]):
    """Allows what access control lists allow, and super users everything."""

    config_model = StandardAuthorizerConfig
    aliases = ("org.apache.kafka.metadata.authorizer.StandardAuthorizer",)
    answers_hold_ms: ClassVar[int | None] = None
    uses_access_lists: ClassVar[bool] = True

    def authorize(self, request: AccessRequest) -> bool:
        """Return what the lists say; without any for the resource, what the setting for that says."""
        if self.allows_everything(request.principal):
            return True
        allowed = self.context.access_lists.decide(request)
        return self.config.allows_without_lists if allowed is None else allowed

    def authorize_any(self, request: AccessRequest) -> bool:
        """Return whether there may be a resource of the type that the lists allow, or that has none."""
        if self.allows_everything(request.principal):
            return True
        # As in Kafka, a name that nobody has stands for resources without lists.
        unheard_of = AccessRequest(
            request.principal, request.host, request.operation, request.resource_type, "hardcode"
        )
        return self.authorize(unheard_of) or self.context.access_lists.allow_any(request)

    def allows_everything(self, principal: Principal) -> bool:
        """Return whether it is a super user."""
        return str(principal) in self.config.super_users
