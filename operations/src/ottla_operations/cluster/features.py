"""Feature levels (KIP-584) of any cluster: what it is at, what its brokers have, and updates."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from ottla_operations.errors import OperationError, UsageProblem

NO_LEVEL = 0
"""The level of a feature that is not in use."""


class UpdateType(IntEnum):
    """What an update of a level is meant to be. Source: UpdateFeaturesRequest."""

    UPGRADE = 1
    DOWNGRADE = 2


@dataclass(frozen=True, slots=True)
class FeatureView:
    """One feature, as a cluster tells of it.

    Attributes:
        name: such as `ottla.version`.
        level: what the cluster is at; `NO_LEVEL` for none.
        min_level: the lowest level that every broker has.
        max_level: the highest one; lower than `min_level` where the brokers have none in common.
    """

    name: str
    level: int
    min_level: int
    max_level: int


def common_features(
    finalized: Mapping[str, int], supported: Mapping[int, Mapping[str, tuple[int, int]]]
) -> list[FeatureView]:
    """Return all features by name.

    Args:
        finalized: the cluster's levels.
        supported: by broker, the lowest and the highest level of each feature that it has.
    """
    names = sorted({*finalized, *(name for ranges in supported.values() for name in ranges)})
    views = []
    for name in names:
        ranges = [each.get(name, (NO_LEVEL, NO_LEVEL)) for each in supported.values()]
        min_level = max((low for low, _ in ranges), default=NO_LEVEL)
        max_level = min((high for _, high in ranges), default=NO_LEVEL)
        views.append(FeatureView(name, finalized.get(name, NO_LEVEL), min_level, max_level))
    return views


def parse_levels(texts: list[str]) -> dict[str, int]:
    """Return levels by feature, from words such as `ottla.version=2`.

    Raises:
        UsageProblem: a word is no such thing, or names a feature a second time.
    """
    levels: dict[str, int] = {}
    for text in texts:
        name, separator, level = text.partition("=")
        if not (name and separator and level.isdecimal()):
            raise UsageProblem(f"'{text}' is no level of a feature; write FEATURE=LEVEL, for example ottla.version=2")
        if name in levels:
            raise UsageProblem(f"{name} is given two levels")
        levels[name] = int(level)
    return levels


def newest_levels(features: list[FeatureView]) -> dict[str, int]:
    """Return the updates that bring every feature to the newest level that all brokers have."""
    return {each.name: each.max_level for each in features if each.max_level > each.level}


def check_known(levels: Mapping[str, int], features: list[FeatureView]) -> None:
    """See that the cluster has the features that are to be updated.

    Raises:
        OperationError: it does not know one of them.
    """
    known = [each.name for each in features]
    for name in levels:
        if name not in known:
            raise OperationError(f"the cluster has no feature {name}; it has {', '.join(known) or 'none'}")
