"""What a group's committed offset is at the target: the first record of it that the group has not consumed. Pure.

The map says it exactly. It is held within the log that the target has now, so that neither is a consumer sent where
the log has nothing any more, and starts anew by its own rule, nor does a lag become negative.
"""

from typing import NamedTuple
from uuid import UUID

from ottla_core.client.cluster_metadata import NO_TOPIC_ID
from ottla_core.client.group.cluster_groups import LogBounds
from ottla_mirror.offsets.stored_copy import StoredCopy


class Translated(NamedTuple):
    """A translated offset.

    Attributes:
        target_offset: at the target.
        not_copied: offsets of the source before the group's that are not copied yet. Above zero the group is ahead of
            the copy, and the target's offset goes on as the copy does.
    """

    target_offset: int
    not_copied: int


def translated(source_offset: int, copy: StoredCopy, target: LogBounds) -> Translated:
    """Return what a committed offset is at the target.

    Args:
        source_offset: as the group has committed it.
        copy: how far the partition's copy has come; of the topics as they are now (`is_of`).
        target: the log of the target's partition.

    Raises:
        InvalidRecord: the stored map cannot be read.
    """
    found = copy.map.translate(source_offset)
    return Translated(min(max(found.target_offset, target.start), target.end), found.not_copied)


def is_of(copy: StoredCopy, source_topic_id: UUID, target_topic_id: UUID) -> bool:
    """Return whether a copy is of the topics with these ids, or one of them was made anew since.

    A cluster without topic ids says nothing about that.
    """
    pairs = (
        (copy.session.source_topic_id, source_topic_id),
        (copy.session.target_topic_id, target_topic_id),
    )
    return all(NO_TOPIC_ID in pair or pair[0] == pair[1] for pair in pairs)
