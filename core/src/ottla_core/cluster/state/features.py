"""Feature levels (KIP-584): which formats a cluster may use, and which a process knows. Pure.

A *level* of a feature stands for a set of formats in etcd, on disk and over gRPC. Every process registers the range
of levels that it has. An operator *finalises* a level once every process has it. From then on its formats are
written, and a process without it must not run. Until then the processes write what the former release reads, so that
it may come back.

The feature `ottla.version`:

====  ===========================================================================================================
1     what the first releases write, which knew of no levels; they register no range
2     what begins with the releases that know of levels; no format needs it
3     access control lists, users' credentials, delegation tokens and clients' quotas in etcd: a process that does not
      know these keys would let clients do what they deny
4     transactions: `__transaction_state`, whose partitions a coordinator that does not know the topic would take for
      those of `__consumer_offsets`, and markers and open transactions in logs
====  ===========================================================================================================

The feature `transaction.version` is Kafka's. It says which protocol clients of transactions use:

====  ===========================================================================================================
0     a producer adds partitions before it writes to them; transactions are stored in records of fixed fields
1     these records have tagged fields (KIP-890)
2     each end of a transaction raises the producer's epoch; a produce request adds its partitions itself (KIP-890)
====  ===========================================================================================================

It may be left at any time, also with transactions open. While it is above 0, `ottla.version` is at level 4 at least.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

OTTLA_VERSION = "ottla.version"
FIRST_LEVEL = 1
SECURITY_LEVEL = 3
TRANSACTION_LEVEL = 4
NEWEST_LEVEL = 4

TRANSACTION_VERSION = "transaction.version"
TRANSACTION_VERSION_WITHOUT = 0
"""The level at which a cluster is that has not finalised the feature; a level 0 is never stored."""
EPOCH_BUMP_VERSION = 2
"""The version from which on each end of a transaction raises the producer's epoch."""

NEVER_UPDATED = 0
"""The epoch of the features of a cluster whose levels were never written."""


@dataclass(frozen=True, slots=True)
class FeatureRange:
    """The levels of one feature that a process has, both ends included."""

    name: str
    min_level: int
    max_level: int

    def __contains__(self, level: int) -> bool:
        return self.min_level <= level <= self.max_level

    def __str__(self) -> str:
        if self.min_level == self.max_level:
            return f"level {self.min_level} of {self.name}"
        return f"levels {self.min_level} to {self.max_level} of {self.name}"


FeatureRanges = tuple[FeatureRange, ...]

SUPPORTED: FeatureRanges = (
    FeatureRange(OTTLA_VERSION, FIRST_LEVEL, NEWEST_LEVEL),
    FeatureRange(TRANSACTION_VERSION, TRANSACTION_VERSION_WITHOUT, EPOCH_BUMP_VERSION),
)
"""What this release has."""

UNSAID: FeatureRanges = (FeatureRange(OTTLA_VERSION, FIRST_LEVEL, FIRST_LEVEL),)
"""What a process has that registers no ranges: it is of a release before there were levels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizedFeatures:
    """The levels that the cluster is at.

    Attributes:
        levels: by feature; one that is absent is at no level.
        epoch: mod revision of the key, `NEVER_UPDATED` while there is none. Grows with every update.
    """

    levels: Mapping[str, int] = field(default_factory=lambda: {OTTLA_VERSION: FIRST_LEVEL})
    epoch: int = NEVER_UPDATED

    @property
    def level(self) -> int:
        """The level of `ottla.version`, which decides the formats that are written."""
        return self.levels.get(OTTLA_VERSION, FIRST_LEVEL)

    @property
    def has_transactions(self) -> bool:
        """Whether every process knows of transactions."""
        return self.level >= TRANSACTION_LEVEL

    @property
    def transaction_version(self) -> int:
        """The level of `transaction.version`, which decides the protocol that clients of transactions use."""
        return self.levels.get(TRANSACTION_VERSION, TRANSACTION_VERSION_WITHOUT)


def newest_features() -> Mapping[str, int]:
    """Return the levels at which a new cluster begins."""
    return {each.name: each.max_level for each in SUPPORTED}


def range_of(ranges: Sequence[FeatureRange], name: str) -> FeatureRange | None:
    """Return the levels of one feature, None for a feature that is not known there."""
    return next((each for each in ranges if each.name == name), None)
