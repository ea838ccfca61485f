"""Changes of access control lists, one at a time with all other changes; `acl_changes` decides."""

from collections.abc import Sequence

import structlog

from ottla_controller.acl_changes import AclPlan, plan_alterations
from ottla_controller.change_sequence import ChangeSequence
from ottla_controller.fenced_writer import Write
from ottla_core.acl_filters import AclFilter
from ottla_core.acls import AclBinding
from ottla_core.cluster.state import security_codec
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.random_ids import random_uuid

log = structlog.get_logger("controller")


class AclController:
    """Decides about access control lists for one term."""

    def __init__(self, changes: ChangeSequence, keys: KeySpace) -> None:
        self._changes = changes
        self._keys = keys

    async def alter(
        self,
        creations: Sequence[AclBinding],
        deletions: Sequence[AclFilter],
        *,
        timeout_s: float | None = None,
    ) -> tuple[Sequence[Sequence[AclBinding]], int]:
        """Delete and create bindings; return what each deletion found, and the revision that contains the changes.

        Raises:
            KafkaError: as `plan_alterations` says.
        """

        async def change() -> tuple[Sequence[Sequence[AclBinding]], int]:
            plan = plan_alterations(creations, deletions, self._changes.state, random_uuid)
            writes = self._writes(plan)
            if writes:
                await self._changes.write(writes)
                log.info("access control lists altered", created=len(plan.created), deleted=len(plan.deleted))
            return plan.deleted_by, self._changes.state.revision

        return await self._changes.make(change, timeout_s=timeout_s)

    def _writes(self, plan: AclPlan) -> list[Write]:
        # In the plan's order, and what is created before what goes: no part of it allows more than before and after.
        return [
            *(
                Write(key=self._keys.acl(acl_id), value=security_codec.encode_acl(binding), replaces=None)
                for acl_id, binding in plan.created.items()
            ),
            *(Write(key=self._keys.acl(acl_id), value=None, replaces=None) for acl_id in plan.deleted),
        ]
