"""What the classic and the consumer protocol's groups have in common, as seen by offsets and by administration.

Pure.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import ClassVar

from ottla_group_coordinator.runtime.turn import CoordinatorRecord

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of consumers; Connect and Schema Registry have others."""


class GroupType(StrEnum):
    """The protocols, as ListGroups names them."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Group(ABC):
    """A group of either protocol.

    Attributes:
        members: by member id.
    """

    type: ClassVar[GroupType]
    group_id: str
    members: Mapping[str, object]

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The state as Kafka's tools write it, such as ``Stable`` or ``PreparingRebalance``."""

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """``consumer``, ``connect`` or what else the members say; empty for a group that only keeps offsets."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group has no members."""

    @property
    @abstractmethod
    def empty_since_ms(self) -> int | None:
        """When the last member went, or None if there are members or it is unknown."""

    @property
    def offsets_may_expire(self) -> bool:
        """Whether the age of offsets counts at present."""
        return True

    @abstractmethod
    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        api_version: int,
        now_ms: int,
        *,
        in_transaction: bool = False,
    ) -> None:
        """See that a member may commit offsets; a commit counts as a sign of life in a classic group.

        In a transaction it does not, and those may commit who name no member, as old producers cannot.

        Raises:
            UnknownMemberId, IllegalGeneration, FencedInstanceId, RebalanceInProgress, StaleMemberEpoch: it may not.
        """

    @abstractmethod
    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """See that a member may read the group's offsets; anybody may who names no member.

        Raises:
            UnknownMemberId, StaleMemberEpoch: it may not.
        """

    @abstractmethod
    def check_deletable(self) -> None:
        """See that the group may be deleted.

        Raises:
            NonEmptyGroup: it has members.
            GroupIdNotFound: it is on its way out.
        """

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether members consume the topic, so that its offsets must be kept."""

    @abstractmethod
    def tombstones(self) -> Iterable[CoordinatorRecord]:
        """Return what removes the group from the log, its offsets aside."""
