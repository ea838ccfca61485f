"""What an assignor is given and gives."""

from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from ottla_group_coordinator.consumer.partitions import Partitions


class Subscriber(NamedTuple):
    """A member as assignors see it.

    Attributes:
        topic_ids: the topics that it subscribes to, as far as they exist.
        instance_id: its `group.instance.id`, or None for a dynamic member.
    """

    topic_ids: frozenset[UUID]
    instance_id: str | None = None


Assignor = Callable[
    [Mapping[str, Subscriber], Mapping[UUID, int], Mapping[str, Partitions]],
    dict[str, Partitions],
]
"""``(subscribers by member id, partition counts by topic id, present target by member id) -> new target``."""
