"""Whether a linked partition is a beginning of its source's, byte for byte. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tests.faults.history import Content
from tests.faults.mirrors.copy_checker import Log, same
from tests.faults.replicas import Batch


def prefix_problem(target: Sequence[Batch], source: Sequence[Batch], *, has_gaps: bool) -> str | None:
    """The first batch of the target that is not the source's at its place, from where both logs begin.

    Args:
        target: what a replica of the target has.
        source: what one of the source has; it may go on behind the target's end.
        has_gaps: whether the target may lack batches that the source had deleted before.
    """
    if not target or not source:
        return None
    begins_at = max(target[0].base_offset, source[0].base_offset)
    wanted = [batch for batch in source if batch.base_offset >= begins_at]
    found = [batch for batch in target if batch.base_offset >= begins_at]
    if has_gaps:
        there = {batch.base_offset for batch in found}
        wanted = [batch for batch in wanted if batch.base_offset in there]
    for index, batch in enumerate(found):
        if index >= len(wanted):
            return f"has {batch}, where the source, which ends at {source[-1].next_offset}, has nothing"
        if batch != wanted[index]:
            return f"has {batch}; the source has {wanted[index]}"
    return None


def replica_problem(
    target: Sequence[Batch], sources: Mapping[str, Sequence[Batch]], *, has_gaps: bool = False
) -> str | None:
    """Why a replica of the target is a beginning of no replica of the source; None if it is of one.

    One is enough: a replica of the source may have too few records, or such as were never committed.
    """
    problems = {name: prefix_problem(target, batches, has_gaps=has_gaps) for name, batches in sources.items()}
    if None in problems.values():
        return None
    return "; ".join(f"{problem} ({name})" for name, problem in problems.items())


def epoch_problem(batches: Iterable[Batch], leader_epoch: int) -> str | None:
    """A leader epoch that is below that of a record in the log, which clients would take for an earlier one."""
    largest = max((batch.leader_epoch for batch in batches), default=-1)
    if largest > leader_epoch:
        return f"has the leader epoch {leader_epoch}, below that of its records, {largest}"
    return None


def content_problems(
    name: str, source: Log, target: Sequence[tuple[int, Content]], *, needed: Collection[int]
) -> Iterator[str]:
    """Records at offsets where the source had another one, and such as are not there.

    Args:
        name: of the partition.
        source: all that the source is known to have had.
        target: what is there.
        needed: the offsets that must be there.
    """
    for offset, content in target:
        there = source.get(offset)
        if there is None or not same(there, content):
            yield f"{name}@{offset} is {content}; the source had {there}"
            break
    missing = sorted(set(needed) - {offset for offset, _ in target})
    if missing:
        yield f"lost: {name} lacks {len(missing)} records of the source, the first at offset {missing[0]}"
