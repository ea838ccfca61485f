"""Updates of feature levels, one at a time with all other changes; `feature_updates` decides."""

from collections.abc import Sequence

import structlog

from ottla_controller.change_sequence import ChangeSequence
from ottla_controller.feature_updates import updated_levels
from ottla_controller.fenced_writer import Write
from ottla_core.cluster.controller_rpc.controller_api import FeatureUpdate
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.keys import KeySpace

log = structlog.get_logger("controller")


class FeatureController:
    """Decides about feature levels for one term."""

    def __init__(self, changes: ChangeSequence, keys: KeySpace) -> None:
        self._changes = changes
        self._keys = keys

    async def update(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool, timeout_s: float | None = None
    ) -> int:
        """Update levels, all or none; return the revision that contains them.

        A process that registers while this decides is one that was not asked. So the write compares that nobody has
        registered after the state that was decided on; else it is decided again.

        Raises:
            InvalidRequest, InvalidUpdateVersion: an update is refused.
        """

        async def change() -> int:
            state = self._changes.state
            levels = updated_levels(updates, state)
            if not validate_only and levels != state.features.levels:
                write = Write(
                    key=self._keys.features,
                    value=codec.encode_features(levels),
                    replaces=state.features.epoch,
                    complete_below=(self._keys.members, state.revision),
                )
                await self._changes.write([write])
                log.info("levels of features updated", former=dict(state.features.levels), levels=dict(levels))
            return self._changes.state.revision

        return await self._changes.make(change, timeout_s=timeout_s)
