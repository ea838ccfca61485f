"""An authorization by access control lists that a test gives, with the standard authorizer."""

from collections.abc import Sequence
from uuid import UUID

from ottla_broker.authorization import Authorization
from ottla_broker.client_plugins.finding import find_authorizer
from ottla_broker.client_plugins.guarded_authorizer import ClusterAccessLists, GuardedAuthorizer
from ottla_core.acls import AclBinding
from ottla_sdk.broker import AuthorizerContext


def authorization_by(bindings: Sequence[AclBinding]) -> Authorization:
    """The authorization of a broker that has the standard authorizer, and no super users."""
    acls = {UUID(int=number): each for number, each in enumerate(bindings)}
    authorizer = find_authorizer("StandardAuthorizer", {})
    authorizer.start(AuthorizerContext("cluster", 1, ClusterAccessLists(lambda: acls)))
    return Authorization(GuardedAuthorizer(authorizer, lambda: acls))
