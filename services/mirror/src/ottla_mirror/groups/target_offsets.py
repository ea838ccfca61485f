"""Whether a translated offset becomes the offset of the target's group.

Only of a group without members: its coordinator says that, and says it again when it is to store the offset.

Forward always: what the group has consumed at the source it need not consume at the target. Back, as after a reset of
the group's offsets at the source, only if the present offset is the one that the mirror has stored last, and the
group has never had members at the target: what people have consumed there after they switched is not taken back.
MirrorMaker 2 never goes back, so that a reset at the source does not arrive.
"""

from typing import Final, NamedTuple

MEMBERLESS_STATES: Final = frozenset({"Empty", "Dead", ""})
CLASSIC_TYPES: Final = frozenset({"", "classic"})


class TargetGroup(NamedTuple):
    """What the target's coordinator says of a group.

    Attributes:
        state: "Empty" if it has no members; "" if there is no such group.
        protocol_type: "" for a group that has only ever had offsets.
        group_type: "classic", "consumer", …; "" where the cluster is older than that.
    """

    state: str
    protocol_type: str
    group_type: str

    @property
    def has_members(self) -> bool:
        """Whether it is being used, so that its offsets are its own affair."""
        return self.state not in MEMBERLESS_STATES

    @property
    def had_members(self) -> bool:
        """Whether it has ever had members, as far as the coordinator remembers."""
        return self.protocol_type != "" or self.group_type.lower() not in CLASSIC_TYPES


ABSENT: Final = TargetGroup("", "", "")


def has_to_be_stored(target_offset: int, present: int | None, stored_last: int | None, group: TargetGroup) -> bool:
    """Return whether a translated offset is to become the group's.

    Args:
        target_offset: the translated offset.
        present: what the group has at the target now; None if it has nothing for the partition.
        stored_last: what the mirror has stored there last, as far as it knows.
        group: the target's group.
    """
    if group.has_members or present == target_offset:
        return False
    if present is None or target_offset > present:
        return True
    return present == stored_last and not group.had_members
