"""Changes of access control lists: what is written, and in which order."""

from dataclasses import replace
from uuid import UUID

from ottla_controller.acl_changes import AclPlan, plan_alterations
from ottla_core.acl_filters import AclFilter
from ottla_core.acls import AclBinding, AclOperation, PatternType, Permission, ResourceKind
from ottla_core.cluster.state.features import SECURITY_LEVEL, FinalizedFeatures
from ottla_core.cluster.state.model import ClusterState
from ottla_core.cluster.state.security import SecurityState

ALLOWED = AclBinding(
    kind=ResourceKind.TOPIC,
    pattern=PatternType.LITERAL,
    name="flights",
    principal="User:ann",
    host="*",
    operation=AclOperation.READ,
    permission=Permission.ALLOW,
)
DENIED = replace(ALLOWED, principal="User:bob", permission=Permission.DENY)
OTHER = replace(ALLOWED, principal="User:carl")


def plan(creations: list[AclBinding], deletions: list[AclFilter], present: list[AclBinding]) -> AclPlan:
    ids = iter(range(100, 200))
    state = ClusterState(
        features=FinalizedFeatures(levels={"ottla.version": SECURITY_LEVEL}, epoch=1),
        security=SecurityState(acls={UUID(int=number): each for number, each in enumerate(present)}),
    )
    return plan_alterations(creations, deletions, state, lambda: UUID(int=next(ids)))


def test_denials_are_created_before_what_is_allowed() -> None:
    assert [*plan([ALLOWED, DENIED, OTHER], [], []).created.values()] == [DENIED, ALLOWED, OTHER]


def test_denials_are_deleted_after_what_is_allowed() -> None:
    present = [DENIED, ALLOWED, OTHER]
    planned = plan([], [AclFilter()], present)
    assert [present[acl_id.int] for acl_id in planned.deleted] == [ALLOWED, OTHER, DENIED]
    assert planned.deleted_by == [present]


def test_a_binding_that_is_there_is_not_written_again() -> None:
    assert not plan([ALLOWED, ALLOWED], [], [ALLOWED]).created
    assert [*plan([ALLOWED, ALLOWED], [], []).created.values()] == [ALLOWED]
