"""Changes of clients' quotas, one at a time with all other changes; `quota_changes` decides."""

from collections.abc import Mapping, Sequence

import structlog

from ottla_controller.change_sequence import ChangeSequence
from ottla_controller.fenced_writer import Write
from ottla_controller.quota_changes import plan_alterations
from ottla_core.cluster.controller_rpc.quota_messages import EntityParts, QuotaAlteration
from ottla_core.cluster.state import security_codec
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.errors import KafkaError

log = structlog.get_logger("controller")


class QuotaController:
    """Decides about clients' quotas for one term."""

    def __init__(self, changes: ChangeSequence, keys: KeySpace) -> None:
        self._changes = changes
        self._keys = keys

    async def alter(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool, timeout_s: float | None = None
    ) -> tuple[Mapping[EntityParts, KafkaError | None], int]:
        """Set and remove quotas; return what came of each entity, and the revision that contains the changes.

        Raises:
            KafkaError: as `plan_alterations` says.
        """

        async def change() -> tuple[Mapping[EntityParts, KafkaError | None], int]:
            plan = plan_alterations(alterations, self._changes.state)
            if plan.written and not validate_only:
                await self._changes.write(
                    [
                        Write(
                            key=self._keys.client_quota(entity),
                            value=security_codec.encode_quotas(quotas) if quotas else None,
                            replaces=None,
                        )
                        for entity, quotas in plan.written.items()
                    ]
                )
                log.info("quotas of clients altered", entities=len(plan.written))
            return plan.results, self._changes.state.revision

        return await self._changes.make(change, timeout_s=timeout_s)
