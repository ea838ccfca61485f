"""The one place that says what a request may do.

Handlers are to ask here whether an operation on a resource is allowed; what responses of brokers tell of allowed
operations comes from here already. There are no access control lists yet, so everything is allowed, as in Kafka
without an authorizer.
"""

from typing import TYPE_CHECKING

from kio.static.primitive import i32

from ottla_core.acls import AclOperation, ResourceKind
from ottla_core.authorized_operations import OPERATIONS, operation_bits

if TYPE_CHECKING:
    from ottla_broker.broker import Request


class Authorization:
    """Decides what requests may do."""

    def permits(self, request: "Request", operation: AclOperation, kind: ResourceKind, name: str) -> bool:
        """Return whether the principal of a request may do an operation.

        Args:
            request: its principal, listener and address count.
            operation: one that this kind of resource has.
            kind: of resource.
            name: of the resource; `CLUSTER_NAME` for the cluster.
        """
        del request, name  # nobody is denied anything
        assert operation in OPERATIONS[kind], f"{kind.name} has no operation {operation.name}"
        return True

    def operations_on(self, request: "Request", kind: ResourceKind, name: str) -> i32:
        """Return the operations that a request may do with a resource, as responses tell them."""
        return operation_bits(each for each in OPERATIONS[kind] if self.permits(request, each, kind, name))
