"""Whether a translated offset becomes the offset of the target's group. Pure.

Only of a group without members: its coordinator says that, and says it again when it is to store the offset.

Forward always: what the group has consumed at the source it need not consume at the target. Back, as after a reset of
the group's offsets at the source, only if the present offset is the one that the mirror has stored last, and the
group has never had members at the target: what people have consumed there after they switched is not taken back.
MirrorMaker 2 never goes back, so that a reset at the source does not arrive.
"""

from ottla_core.client.group.offset_requests import ListedGroup


def has_to_be_stored(target_offset: int, present: int | None, stored_last: int | None, group: ListedGroup) -> bool:
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
