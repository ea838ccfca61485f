"""Whether this release can take part in a cluster, by the cluster's levels of features.

It stands apart from `features.py`, a part of the model of the cluster, which is imported where no Kafka errors are.
"""

from collections.abc import Sequence

from ottla_core.cluster.state.features import SUPPORTED, FeatureRange, FinalizedFeatures, range_of
from ottla_core.errors import OttlaError


class LevelUnsupported(OttlaError):
    """The cluster is at a level that this release does not have; the process must end."""


def check_supported(features: FinalizedFeatures, supported: Sequence[FeatureRange] = SUPPORTED) -> None:
    """See that a process can take part in a cluster.

    Raises:
        LevelUnsupported: it lacks a finalised level.
    """
    for name, level in sorted(features.levels.items()):
        known = range_of(supported, name)
        if known is None:
            raise LevelUnsupported(
                f"the cluster is at level {level} of {name}, a feature that this release does not have: "
                "start a release that has it"
            )
        if level not in known:
            raise LevelUnsupported(
                f"the cluster is at level {level} of {name}, and this release has {known}: "
                "start a release that has the cluster's level"
            )
