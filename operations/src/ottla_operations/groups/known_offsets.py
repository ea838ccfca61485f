"""What there is to know about a group's partitions before its offsets are reset."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla_operations.errors import OperationError
from ottla_operations.groups.inspection import Partition, committed_offsets, existing, log_offsets, partition_counts
from ottla_operations.groups.offset_reset import PartitionOffsets, Reset, Target
from ottla_operations.groups.partition_selection import BadSelection, selected_partitions

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


class NoOffsets(OperationError):
    """A group has no offsets that could be reset, and no topics were chosen."""


def known_offsets(
    client: "AdminClient", group: str, chosen: Mapping[str, frozenset[int]], reset: Reset, bootstrap: str
) -> list[PartitionOffsets]:
    """Return the offsets of the chosen partitions; with none chosen, of those that the group has committed.

    Raises:
        NoOffsets: nothing is committed, and nothing chosen.
        OperationError: there is no such partition, or the cluster does not tell an offset.
    """
    from confluent_kafka.admin import OffsetSpec  # noqa: PLC0415

    committed = committed_offsets(client, group, bootstrap)
    counts = partition_counts(client, bootstrap)
    try:
        partitions = selected_partitions(chosen, counts) if chosen else existing(committed, counts)
    except BadSelection as error:
        raise OperationError(str(error)) from None
    if not partitions:
        raise NoOffsets(f"group {group} has committed no offsets; name its topics")
    # The library's own constructors of these are not typed.
    first = log_offsets(client, partitions, OffsetSpec.earliest(), bootstrap)  # type: ignore[no-untyped-call]
    end = log_offsets(client, partitions, OffsetSpec.latest(), bootstrap)  # type: ignore[no-untyped-call]
    at_time: dict[Partition, int] = {}
    if reset.target is Target.TIME_MS:
        at_time = log_offsets(client, partitions, OffsetSpec.for_timestamp(reset.number), bootstrap)
    if gone := [f"{topic}-{number}" for topic, number in partitions if (topic, number) not in first.keys() & end]:
        raise OperationError(f"the cluster does not tell the offsets of {', '.join(gone)}")
    return [
        PartitionOffsets(
            topic=each[0],
            partition=each[1],
            committed=committed.get(each),
            first=first[each],
            end=end[each],
            at_time=at_time.get(each),
        )
        for each in partitions
    ]
