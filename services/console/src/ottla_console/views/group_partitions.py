"""The partitions of one group: offsets, how far it has yet to read, and which member reads them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ottla_operations.groups.inspection import Group, Member, Partition, partition_names


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRow:
    """A partition.

    Attributes:
        committed: the offset that the group reads next; None where it has committed none.
        end: the offset that the next record will get; None where not known.
        owner: the member that reads it, or None.
    """

    topic: str
    partition: int
    committed: int | None
    end: int | None
    owner: Member | None

    @property
    def lag(self) -> int | None:
        """Records that are yet to be read; None where not known."""
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """A member, and its partitions in words; `target` only where they are to be others."""

    member: Member
    assignment: str
    target: str | None


def lag_rows(group: Group, committed: Mapping[Partition, int], ends: Mapping[Partition, int]) -> list[LagRow]:
    """Return the partitions of which a group has an offset, or a member, in order."""
    owners = group.owners()
    return [
        LagRow(
            topic=each[0],
            partition=each[1],
            committed=committed.get(each),
            end=ends.get(each),
            owner=owners.get(each),
        )
        for each in sorted({*committed, *owners})
    ]


def known_lag(rows: Sequence[LagRow]) -> int | None:
    """Return the records that are yet to be read; None if a partition with a committed offset has no known end."""
    lags = [each.lag for each in rows if each.committed is not None]
    return None if None in lags else sum(lag for lag in lags if lag is not None)


def member_rows(group: Group) -> list[MemberRow]:
    """Return the members of a group."""
    return [
        MemberRow(
            member=each,
            assignment=partition_names(each.assignment),
            target=None
            if each.target_assignment in (None, each.assignment)
            else partition_names(each.target_assignment or ()),
        )
        for each in group.members
    ]
