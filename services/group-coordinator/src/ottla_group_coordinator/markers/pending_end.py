"""The end of one transaction while its markers are on their way. Pure."""

from collections.abc import Collection
from dataclasses import dataclass, field

from ottla_core.topic_partition import TopicPartition
from ottla_group_coordinator.transactions.effects import SendMarkers
from ottla_group_coordinator.transactions.shard_state import NUMBER_MAX
from ottla_group_coordinator.transactions.transaction import EPOCH_BUMP_VERSION

NUMBER_STEP_BITS_MAX = 10
"""A number that is refused again and again is raised by up to 1024 at a time."""

PAUSE_MIN_MS = 20
PAUSE_MAX_MS = 500


@dataclass(slots=True, eq=False)
class PendingEnd:
    """One end.

    Attributes:
        order: what the shard has decided.
        number: the ownership number that the next markers bear.
        missing: partitions of which nobody has said that they have the marker.
        asked: those of them whose leaders have been asked and have not answered.
        unknown_since_s: since when the cluster state lacks a partition, by the event loop's clock.
        wanted_number: the least that the next markers may bear, if that is above `number`.
        refusals: how often a log has refused a number in a row.
        pause_ms: how long to wait before the next attempt.
        is_due: whether it waits for its turn of being sent.
        is_warned_of: whether the log has a line about a marker that was refused.
        is_void: whether the shard does not wait for it any more.
    """

    order: SendMarkers
    number: int = 0
    missing: set[TopicPartition] = field(default_factory=set)
    asked: set[TopicPartition] = field(default_factory=set)
    unknown_since_s: dict[TopicPartition, float] = field(default_factory=dict)
    wanted_number: int = 0
    refusals: int = 0
    pause_ms: int = PAUSE_MIN_MS
    is_due: bool = False
    is_warned_of: bool = False
    is_void: bool = False

    def __post_init__(self) -> None:
        self.number = self.order.ownership_number
        self.missing = {
            TopicPartition(topic, index) for topic, indexes in self.order.partitions.items() for index in indexes
        }

    @property
    def needs_number(self) -> bool:
        """Whether the next markers need a later number than the last ones."""
        return self.wanted_number > self.number

    def number_refused(self, number: int) -> None:
        """Note that a log has seen a later number than this one, by how much is not known."""
        if number >= self.number:
            self._want(number + (1 << min(self.refusals, NUMBER_STEP_BITS_MAX)))
            self.refusals += 1

    def take_pause_ms(self) -> int:
        """Return how long to wait before the next attempt; the one after that waits longer."""
        pause_ms, self.pause_ms = self.pause_ms, min(2 * self.pause_ms, PAUSE_MAX_MS)
        return pause_ms

    def due(self) -> list[TopicPartition]:
        """Return the partitions to be asked next."""
        return [partition for partition in self.missing if partition not in self.asked]

    def in_doubt(self, partitions: Collection[TopicPartition], number: int) -> None:
        """Note that markers with a number may still be written, though nobody waits for them any more.

        Up to transaction version 1 the next transaction of the producer has the same epoch, and such a marker would
        end it. So the markers that are waited for get a later number: after one of these, a log refuses the
        others. From version 2 on it is the epoch that tells them apart.
        """
        if partitions and self.order.transaction_version < EPOCH_BUMP_VERSION and number >= self.number:
            self._want(number + 1)

    def _want(self, number: int) -> None:
        # No log has seen a later one than the last, so that one is taken again and again.
        self.wanted_number = max(self.wanted_number, min(number, NUMBER_MAX))
