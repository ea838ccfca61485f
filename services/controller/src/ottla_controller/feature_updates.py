"""Which updates of feature levels are carried out (KIP-584, as Kafka's FeatureControlManager has it). Pure.

A level is finalised only if every live process has it, and every broker that is remembered. A downgrade has to be
asked for as one, and is refused while anything is in use that a process of the lower level would not know. A feature
that is taken to level 0 is no longer stored, so that releases without it can come back.
"""

from collections.abc import Iterator, Mapping, Sequence

from ottla_core.cluster.controller_rpc.controller_api import FeatureUpdate, FeatureUpdateType
from ottla_core.cluster.state.features import (
    FIRST_LEVEL,
    OTTLA_VERSION,
    SECURITY_LEVEL,
    SUPPORTED,
    TRANSACTION_LEVEL,
    TRANSACTION_VERSION,
    FeatureRanges,
    range_of,
)
from ottla_core.cluster.state.model import ClusterState
from ottla_core.errors import InvalidRequest, InvalidUpdateVersion
from ottla_core.shards import TRANSACTION_TOPIC

NO_LEVEL = 0
"""The level of a feature that is not in use; a process need not know the feature then."""


def updated_levels(updates: Sequence[FeatureUpdate], state: ClusterState) -> Mapping[str, int]:
    """Return the levels after updates, all of which are carried out or none.

    Raises:
        InvalidRequest: there is no update, or two of one feature.
        InvalidUpdateVersion: an update is refused.
    """
    if not updates or len({each.feature for each in updates}) < len(updates):
        raise InvalidRequest("an update of features names each feature once, and at least one")
    levels = dict(state.features.levels)
    for update in updates:
        reason = _refusal(update, state)
        if reason is not None:
            raise InvalidUpdateVersion(f"{update.feature} cannot go to level {update.level}: {reason}")
        levels[update.feature] = update.level
    levels = {name: level for name, level in levels.items() if level != NO_LEVEL}
    _check_dependencies(levels)
    return levels


def _check_dependencies(levels: Mapping[str, int]) -> None:
    """See that the levels after all updates go together; Kafka's `FeatureVersion.dependencies`."""
    version = levels.get(TRANSACTION_VERSION, NO_LEVEL)
    level = levels.get(OTTLA_VERSION, FIRST_LEVEL)
    if version > NO_LEVEL and level < TRANSACTION_LEVEL:
        raise InvalidUpdateVersion(
            f"{TRANSACTION_VERSION} cannot be at level {version} while {OTTLA_VERSION} is at level {level}: it needs"
            f" level {TRANSACTION_LEVEL}. To go back with both: `ottla cluster features downgrade"
            f" {OTTLA_VERSION}={level} {TRANSACTION_VERSION}={NO_LEVEL}`"
        )


def _refusal(update: FeatureUpdate, state: ClusterState) -> str | None:
    if update.type not in set(FeatureUpdateType):
        return f"there is no upgrade type {update.type}"
    current = state.features.levels.get(update.feature, 0)
    is_upgrade = update.type == FeatureUpdateType.UPGRADE
    if update.level < current and is_upgrade:
        return f"the cluster is at level {current}, and an upgrade leads to a higher one; ask for a downgrade"
    if update.level > current and not is_upgrade:
        return f"the cluster is at level {current}, and a downgrade leads to a lower one; ask for an upgrade"
    if update.feature == OTTLA_VERSION and update.level < SECURITY_LEVEL and not state.security.is_empty:
        return "there are access control lists, users, tokens or quotas, by which processes of that level do not go"
    if update.feature == OTTLA_VERSION and update.level < TRANSACTION_LEVEL and TRANSACTION_TOPIC in state.topics:
        return f"there is the topic {TRANSACTION_TOPIC}, which coordinators of that level do not know"
    for who, ranges in _processes(state):
        known = range_of(ranges, update.feature)
        if known is None:
            if update.level == NO_LEVEL and range_of(SUPPORTED, update.feature) is not None:
                continue
            return f"{who} does not have this feature"
        if update.level not in known:
            return f"{who} has {known}"
    return None


def _processes(state: ClusterState) -> Iterator[tuple[str, FeatureRanges]]:
    """Yield all that must have a level, each with what it has."""
    yield "the leading controller", SUPPORTED
    for members in (state.controllers, state.coordinators, state.brokers):
        for member in members.values():
            yield f"{member.role} {member.id}", member.features
    for broker_id, registration in state.registrations.items():
        if broker_id not in state.brokers:
            yield f"broker {broker_id}, which is away (unregister it if it has left for good),", registration.features
