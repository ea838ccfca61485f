"""A member of a group of the consumer protocol, as an immutable value, and how it is kept in records.

A member is spread over two records: what it says of itself (its subscription above all) and what it owns at present.
Both make one value here; a change of a member makes a new one and writes the record that changed.
"""

from dataclasses import dataclass, field, replace
from enum import IntEnum

from ottla_group_coordinator.consumer.partitions import Partitions, from_topics, no_partitions, to_topics
from ottla_group_coordinator.records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from ottla_group_coordinator.runtime.turn import CoordinatorRecord

JOINING_EPOCH = 0
"""A member sends this to join, and again when it was fenced and owns nothing any more."""

LEAVING_EPOCH = -1
"""A member sends this when it leaves for good."""

STATIC_LEAVING_EPOCH = -2
"""A static member sends this when it stops and may come back; it keeps its partitions for a session timeout."""

NOT_GIVEN = -1
"""A timeout that was never said."""


class MemberState(IntEnum):
    """How far a member is on its way to its target assignment; the values are Kafka's."""

    STABLE = 0
    """The member has what the target assignment of its epoch gives it.

    Does: heartbeats.
    Left: there is a newer target → `UNREVOKED_PARTITIONS` if it must give up partitions, else
    `UNRELEASED_PARTITIONS` if others still hold some of what it shall get, else `STABLE` in the new epoch.
    """

    UNREVOKED_PARTITIONS = 1
    """The member was told to give up partitions and has not said yet that it has; its epoch is still the old one.

    Does: must report within its rebalance timeout that it no longer owns them, or is removed.
    Left: it reports so → as from `STABLE`, towards the newest target.
    """

    UNRELEASED_PARTITIONS = 2
    """The member has the newest epoch, but others have not released all that it shall get.

    Does: is given what becomes free, heartbeat by heartbeat.
    Left: all is free → `STABLE`; there is a newer target → as from `STABLE`.
    """

    UNKNOWN = 127
    """Written by a later version of Kafka; the member has to join anew."""

    @classmethod
    def _missing_(cls, value: object) -> "MemberState":
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member.

    Attributes:
        epoch: the epoch of the target assignment that the member has reached; 0 for one that is about to join and
            `STATIC_LEAVING_EPOCH` for a static member that has stopped.
        previous_epoch: with which it may still come, if the answer with `epoch` was lost.
        rebalance_timeout_ms: how long it may take to give up partitions.
        subscribed_topic_regex: empty if it subscribes by names alone.
        server_assignor: the assignor that it prefers.
        assigned: what it owns and keeps.
        pending_revocation: what it owns and must give up.
        classic: what is known of a member that speaks the classic protocol, during a migration.
    """

    member_id: str
    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NOT_GIVEN
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str = ""
    server_assignor: str | None = None
    assigned: Partitions = field(default_factory=no_partitions)
    pending_revocation: Partitions = field(default_factory=no_partitions)
    classic: ClassicMemberMetadata | None = None

    @property
    def uses_classic_protocol(self) -> bool:
        """Whether the member speaks JoinGroup and SyncGroup, in a group that is being migrated."""
        return self.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member has all that the target assignment of an epoch gives it."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> "ConsumerMember":
        """Return the member as its metadata record describes it."""
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=frozenset(value.subscribed_topic_names),
            subscribed_topic_regex=value.subscribed_topic_regex or "",
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def with_current_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> "ConsumerMember":
        """Return the member with what its assignment record says it owns."""
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=from_topics(value.assigned_partitions),
            pending_revocation=from_topics(value.partitions_pending_revocation),
        )


def metadata_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Return the record of what a member says of itself."""
    return CoordinatorRecord(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=tuple(sorted(member.subscribed_topic_names)),
            subscribed_topic_regex=member.subscribed_topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=member.classic,
        ),
    )


def current_assignment_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Return the record of what a member owns."""
    return CoordinatorRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state.value,
            assigned_partitions=to_topics(member.assigned),
            partitions_pending_revocation=to_topics(member.pending_revocation),
        ),
    )
