"""Which bindings of the access control lists come and go. Pure.

Deletions come first. A binding that is there already is not written again, so a request that is repeated changes
nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from ottla_controller.security_level import check_security_level
from ottla_core.acl_filters import AclFilter, check_binding
from ottla_core.acls import AclBinding, Permission
from ottla_core.cluster.state.model import ClusterState
from ottla_core.errors import PolicyViolation

ACLS_MAX: Final = 50_000
"""Bindings of a cluster: every process keeps all of them."""


@dataclass(frozen=True, slots=True)
class AclPlan:
    """What is to be done.

    Many bindings are written in several transactions, of which the last ones may fail: hence denials are created
    first and deleted last.

    Attributes:
        created: new bindings by their ids, denials first.
        deleted: the ids of those that go, denials last.
        deleted_by: what each deletion found, in order.
    """

    created: Mapping[UUID, AclBinding]
    deleted: Sequence[UUID]
    deleted_by: Sequence[Sequence[AclBinding]]


def plan_alterations(
    creations: Sequence[AclBinding],
    deletions: Sequence[AclFilter],
    state: ClusterState,
    new_id: Callable[[], UUID],
) -> AclPlan:
    """Return what a request comes to.

    Args:
        creations: bindings that are to be there.
        deletions: of bindings that are to go.
        state: of the cluster.
        new_id: draws an id.

    Raises:
        CodedError: the cluster is at a level of features without access control lists.
        InvalidRequest: a binding cannot be for anything; nothing is done.
        PolicyViolation: there would be too many; nothing is done.
    """
    check_security_level(state)
    for binding in creations:
        check_binding(binding)
    left = dict(state.security.acls)
    deleted: list[UUID] = []
    deleted_by: list[list[AclBinding]] = []
    for wanted in deletions:
        found = [acl_id for acl_id, binding in left.items() if wanted.finds(binding)]
        deleted_by.append([left.pop(acl_id) for acl_id in found])
        deleted += found
    deleted.sort(key=lambda acl_id: state.security.acls[acl_id].permission is Permission.DENY)
    known = set(left.values())
    wanted_first = sorted(dict.fromkeys(creations), key=lambda binding: binding.permission is Permission.ALLOW)
    created = {new_id(): binding for binding in wanted_first if binding not in known}
    if created and len(left) + len(created) > ACLS_MAX:
        raise PolicyViolation(
            f"there are {len(left)} access control lists, and with {len(created)} more there would be more than "
            f"{ACLS_MAX}; use prefixes"
        )
    return AclPlan(created, deleted, deleted_by)
