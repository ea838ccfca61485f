"""What a copier keeps of each partition around its PartitionCopy: who leads it, and how it fares."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from ottla_mirror.copy.partition_copy import PartitionCopy
from ottla_mirror.model import SourcePartition

if TYPE_CHECKING:
    from ottla_mirror.offsets.stored_copy import SessionName

NO_LEADER = -1
FAILURES_BEFORE_WAY: Final = 5
"""So often the target refuses a partition before that gives its memory to others."""
WAIT_BEFORE_WAY_S: Final = 5.0
"""So long it has no leader there, or none that takes anything, before it does so: elections are over sooner."""


class PartitionState(StrEnum):
    """How a partition fares.

    Attributes:
        RUNNING: it is copied, or there is nothing new.
        WAITING: something has to pass, or to be found out, first; it is tried again by itself.
        PAUSED: somebody has paused it.
        HALTED: it cannot go on without somebody's help; `retry` tries again.
    """

    RUNNING = "RUNNING"
    WAITING = "WAITING"
    PAUSED = "PAUSED"
    HALTED = "HALTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """How the copy of a partition fares.

    Attributes:
        partition: of the source.
        target_topic: into which it is copied.
        state: see there.
        reason: why it does not run, and since when it says so, in seconds since the epoch.
        since_s: see `reason`.
        source_offset: all below is dealt with; -1 while that is not known.
        source_start: the source's first offset as it was last seen; -1 before.
        source_end: the source's high watermark as it was last seen; -1 before.
        target_end: the target offset behind the last copied record; -1 while that is not known.
        lag: offsets between `source_offset` and `source_end`, or -1.
        records: copied by this worker.
        bytes: of the batches of these.
        refused: records that the target did not take.
        missed: offsets that the source's retention removed before they were copied.
        unknown: offsets below `source_offset` of which it is not known where they are at the target.
    """

    partition: SourcePartition
    target_topic: str
    state: PartitionState
    reason: str
    since_s: float
    source_offset: int
    source_start: int
    source_end: int
    target_end: int
    lag: int
    records: int
    bytes: int
    refused: int
    missed: int
    unknown: int


class _Standing(NamedTuple):
    """What a state machine tells of a partition; see `PartitionStatus`."""

    source_offset: int = -1
    source_end: int = -1
    target_end: int = -1
    lag: int = -1
    unknown: int = 0

    @classmethod
    def of(cls, copy: PartitionCopy, before: "_Standing") -> "_Standing":
        """Return how a copy stands; before the source's first answer, that it is behind if that was known before."""
        position, source_end, lag = copy.map.source_end, copy.high_watermark, copy.lag
        if source_end < 0:
            source_end, lag = before.source_end, before.source_end - position
            if lag <= 0:
                source_end = lag = -1
        return cls(position, source_end, copy.map.target_end, lag, copy.map.unknown_offsets)


class PartitionWork:
    """One partition of a copier.

    Attributes:
        copy: its state machine; None before it was taken over.
        source_leader: the broker to fetch from, or -1.
        source_leader_epoch: as it is known, or -1.
        source_start: the source's first offset as it was last seen; -1 before.
        target_leader: the broker to produce to, or -1.
        target_topic_id: the life of the target's topic into which is copied.
        is_paused: whether somebody has paused it.
        is_held: whether nothing may be sent for now.
        is_fetch_held: whether nothing may be fetched for now.
        has_given_way: whether nothing is fetched until the target has taken what is left: others need the memory.
        accounted_bytes: what of the copier's buffer it takes.
        failures: in a row, for the pause before the next attempt.
        generation: changes whenever answers that are under way have no meaning any more.
        short_ends: how often in a row the log of a leader ended before what was copied.
        looked_at: session and position at which the target's log was read last because of an error.
        refused_at: the source offset of a batch that the target has refused within a transaction, or None.
        is_taking_back: whether it waits before it takes the partition back from another worker.
    """

    __slots__ = (
        "_before", "_bytes", "_missed", "_missed_known", "_reason", "_records", "_since_s", "_state",
        "accounted_bytes", "copy", "failures", "generation", "has_given_way", "is_fetch_held", "is_held", "is_paused",
        "is_taking_back", "looked_at", "partition", "refused", "refused_at", "short_ends", "source_leader",
        "source_leader_epoch", "source_start", "target_leader", "target_topic", "target_topic_id",
    )  # fmt: skip

    def __init__(self, partition: SourcePartition, target_topic: str, now_s: float) -> None:
        self.partition = partition
        self.target_topic = target_topic
        self.copy: PartitionCopy | None = None
        self.source_leader = self.target_leader = NO_LEADER
        self.source_leader_epoch = self.source_start = -1
        self.target_topic_id = UUID(int=0)
        self.is_paused = self.is_held = self.is_fetch_held = self.has_given_way = False
        self.is_taking_back = False
        self.refused_at: int | None = None
        self.accounted_bytes = self.failures = self.generation = self.refused = self.short_ends = 0
        self.looked_at: tuple[SessionName, int, int] | None = None
        self._records = self._bytes = self._missed = self._missed_known = 0
        self._before = _Standing()
        self._state, self._reason, self._since_s = PartitionState.WAITING, "it has not begun", now_s

    @property
    def may_fetch(self) -> bool:
        """Whether nobody minds that it is fetched."""
        return not (self.is_paused or self.is_held or self.is_fetch_held or self.has_given_way)

    @property
    def may_send(self) -> bool:
        """Whether nobody minds that it is sent."""
        return not (self.is_paused or self.is_held)

    @property
    def has_to_send(self) -> bool:
        """Whether a batch of it may be sent now."""
        copy = self.copy
        return copy is not None and copy.has_to_send and self.may_send

    @property
    def has_copied(self) -> bool:
        """Whether this worker has copied anything of it."""
        return self._records > 0 or (self.copy is not None and self.copy.records > 0)

    @property
    def is_halted(self) -> bool:
        """Whether somebody has to help."""
        return self._state is PartitionState.HALTED

    def has_waited(self, seconds: float, now_s: float) -> bool:
        """Return whether it has waited for the same for so long."""
        return self._state is PartitionState.WAITING and now_s - self._since_s >= seconds

    def set_state(self, state: PartitionState, reason: str, now_s: float) -> bool:
        """Take note how it fares; return whether that is news."""
        if (state, reason) == (self._state, self._reason):
            return False
        self._state, self._reason, self._since_s = state, reason, now_s
        return True

    def replace_copy(self, copy: PartitionCopy | None) -> None:
        """Go on with another state machine; what the former one has counted stays."""
        self._missed_known = self._all_missed
        if self.copy is not None:
            self._before = _Standing.of(self.copy, self._before)
            self._records += self.copy.records
            self._bytes += self.copy.bytes
            self._missed += self.copy.missed_before_position
        if copy is not None and self.copy is not None:
            copy.target_stamps = self.copy.target_stamps
        self.copy = copy
        self.generation += 1

    def forget_unsent(self) -> None:
        """Free the memory of what was never sent; see `PartitionCopy.forget_unsent`."""
        assert self.copy is not None
        self._missed_known = self._all_missed
        self.copy.forget_unsent()

    @property
    def _all_missed(self) -> int:
        """The sum; it does not become smaller where the same has yet to be come upon again."""
        return max(self._missed_known, self._missed + (0 if self.copy is None else self.copy.missed))

    def status(self) -> PartitionStatus:
        """Return how it fares; while it is taken over anew, how far it had come before that."""
        copy = self.copy
        standing = self._before if copy is None else _Standing.of(copy, self._before)
        is_paused = self.is_paused and not self.is_halted
        return PartitionStatus(
            partition=self.partition,
            target_topic=self.target_topic,
            state=PartitionState.PAUSED if is_paused else self._state,
            reason=self._reason,
            since_s=self._since_s,
            source_offset=standing.source_offset,
            source_start=self.source_start,
            source_end=standing.source_end,
            target_end=standing.target_end,
            lag=standing.lag,
            records=self._records + (copy.records if copy else 0),
            bytes=self._bytes + (copy.bytes if copy else 0),
            refused=self.refused,
            missed=self._all_missed,
            unknown=standing.unknown,
        )
