"""What is moved among brokers: the lines of a plan, the moves that are under way, and how a movement ended. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import ClusterView, Disks, Move, Replicas, partition_sizes
from ottla_operations.cluster.movement import Result
from ottla_operations.cluster.movement_plan import MovementPlan
from ottla_operations.quantities import counted

MEGABYTE: Final = 1_000_000
THROTTLE_MAX: Final = 1_000_000
"""In megabytes per second: more than any disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """A partition of a plan; `copies` replicas are copied, of `size_bytes` each."""

    name: TopicPartition
    before: Replicas
    after: Replicas
    size_bytes: int
    copies: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRow:
    """A move that is under way.

    Attributes:
        adding, removing: the brokers that a replica comes to, and leaves.
        size_bytes, copied_bytes: of all copies that are made; None where no broker tells.
    """

    name: TopicPartition
    adding: Replicas
    removing: Replicas
    size_bytes: int | None
    copied_bytes: int | None

    @property
    def left_bytes(self) -> int | None:
        """How many are yet to be copied."""
        if self.size_bytes is None or self.copied_bytes is None:
            return None
        return self.size_bytes - self.copied_bytes


def change_rows(plan: MovementPlan) -> list[ChangeRow]:
    """Return the partitions of a plan: what has most to be copied first, then by name."""
    rows = []
    for name, after in plan.targets.items():
        before = plan.view.partitions[name].replicas
        added = len(set(after) - set(before))
        rows.append(
            ChangeRow(name=name, before=before, after=after, size_bytes=plan.sizes.get(name, 0), copies=added)
        )
    return sorted(rows, key=lambda row: (-row.size_bytes * row.copies, -row.copies, row.name))


def move_rows(moves: Mapping[TopicPartition, Move], view: ClusterView, disks: Disks) -> list[MoveRow]:
    """Return the moves that are under way, what has most left first, then by name.

    Args:
        moves: them.
        view: of the cluster.
        disks: what the brokers have; one that does not answer is missing.
    """
    # A copy in the making is smaller than it will be, so only finished copies say how large one is.
    finished = {
        broker: [each for each in copies if each.partition not in moves or broker not in moves[each.partition].adding]
        for broker, copies in disks.items()
    }
    sizes = partition_sizes(finished)
    made: dict[TopicPartition, int] = {}
    for broker, copies in disks.items():
        for each in copies:
            if each.partition in moves and broker in moves[each.partition].adding and not each.is_future:
                size_bytes = min(each.size_bytes, sizes.get(each.partition, 0))
                made[each.partition] = made.get(each.partition, 0) + size_bytes
    rows = [
        MoveRow(
            name=name,
            adding=move.adding,
            removing=move.removing,
            size_bytes=sizes[name] * len(move.adding) if name in sizes else None,
            copied_bytes=made.get(name, 0) if all(each in disks for each in move.adding) else None,
        )
        for name, move in moves.items()
        if name in view.partitions
    ]
    return sorted(rows, key=lambda row: (-(row.left_bytes or 0), row.name))


def left_bytes(rows: list[MoveRow]) -> int | None:
    """Return how many bytes are yet to be copied in all; None where that is not known of one."""
    total = 0
    for row in rows:
        if row.left_bytes is None:
            return None
        total += row.left_bytes
    return total


def ended_words(result: Result, problem: str | None) -> tuple[str, str]:
    """Return how a movement ended: a grade, and a sentence."""
    words = [f"{counted(len(result.moved), 'partition')} moved"]
    if result.failed:
        words.append(f"{len(result.failed):,} failed")
    if result.cancelled:
        words.append(f"{len(result.cancelled):,} cancelled and where they were")
    if result.not_begun:
        words.append(f"{len(result.not_begun):,} not begun")
    if problem or result.failed:
        return "bad", f"Ended: {', '.join(words)}."
    if result.cancelled or result.not_begun:
        return "advice", f"Stopped: {', '.join(words)}. A new plan goes on from here."
    return "good", f"Done: {', '.join(words)}."


def throttle_bytes(text: str) -> int | None:
    """Return bytes per second of what was typed in megabytes per second; None for nothing.

    Raises:
        ValueError: it is no such number; the message says which.
    """
    text = text.strip()
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 9 or not 1 <= int(text) <= THROTTLE_MAX:
        raise ValueError(
            f"the limit is {text!r}, not a whole number of megabytes per second from 1 to {THROTTLE_MAX:,}"
        )
    return int(text) * MEGABYTE
