"""A group of the consumer protocol: its members, its epochs, and what it follows from them.

Three epochs tell how far the group is. The *group epoch* counts the changes that call for another assignment: members
that come, go or subscribe to something else, and topics that come, go or grow. The *assignment epoch* is the
group epoch for which the target assignment was last made. A member's epoch is the assignment epoch whose target it
has reached.

The group changes only as its records say, through the methods under "What records change", in normal operation as
well as when it is loaded; all else are questions. Records of a compacted log may lack what later ones made
superfluous, so a partition may seem to change hands before its former owner's record comes: the last one wins.

Source: `ConsumerGroup` and `ModernGroup` in Kafka.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, NamedTuple
from uuid import UUID

from ottla_core.cluster.state.model import Topic
from ottla_core.errors import UnsupportedVersion
from ottla_group_coordinator.consumer.member import ConsumerMember
from ottla_group_coordinator.consumer.partitions import NO_PARTITIONS, Partitions
from ottla_group_coordinator.errors import IllegalGeneration, NonEmptyGroup, StaleMemberEpoch, UnknownMemberId
from ottla_group_coordinator.group import CONSUMER_PROTOCOL_TYPE, Group, GroupType
from ottla_group_coordinator.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    RecordKey,
)
from ottla_group_coordinator.runtime.turn import CoordinatorRecord

FIRST_COMMIT_WITH_MEMBER_EPOCH = 9


class ResolvedExpression(NamedTuple):
    """The topics that a regular expression matches.

    Attributes:
        version: revision of the cluster state in which they were looked up.
        timestamp_ms: when they were.
    """

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerGroup(Group):
    """A group of the consumer protocol.

    Attributes:
        epoch: the group epoch; 0 until the first member has joined.
        metadata_hash: of the subscribed topics when the epoch was last raised; see `subscribed_metadata`.
        assignment_epoch: for which the target was made.
        target: what each member shall own, by member id.
        members: by member id.
        static_members: `group.instance.id` → member id.
        expressions: the regular expressions that members subscribe to, resolved.
        has_partition_metadata: whether the log holds the record by which Kafka 4.0 kept what the hash now stands for.
        checked_topics: the topics of the cluster when the hash was last compared with them; not kept in the log.
        doubted_since_ms: since when members, by id, do not report what they have and shall give up; not kept in the
            log.
        reported: the partitions that members, by id, have reported last; not kept in the log.
        visible: the topics that members, by id, may describe of those that their expressions match, None for all;
            not kept in the log, so nothing is known of members that have sent nothing since the group was loaded.
        loaded_ms: when the group was loaded, as deadlines are counted; None if it has come into being since.
    """

    type: ClassVar[GroupType] = GroupType.CONSUMER

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.target: dict[str, Partitions] = {}
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.expressions: dict[str, ResolvedExpression] = {}
        self.has_partition_metadata = False
        self.checked_topics: object = None
        self.doubted_since_ms: dict[str, int] = {}
        self.reported: dict[str, Partitions] = {}
        self.visible: dict[str, frozenset[str] | None] = {}
        self.loaded_ms: int | None = None
        self._owners: dict[UUID, dict[int, str]] = {}
        self._expression_subscribers: Counter[str] = Counter()

    # What every group can say of itself

    @property
    def state_name(self) -> str:
        """The state as Kafka's tools write it."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def protocol_type(self) -> str:
        """Only consumers speak this protocol."""
        return CONSUMER_PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members; static members that may come back count."""
        return not self.members

    @property
    def empty_since_ms(self) -> int | None:
        """Not kept, as in Kafka: offsets of an empty group expire by their own age."""
        return None

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
        """See that a member may commit offsets; an empty group takes commits of anybody who names no epoch.

        In a transaction so does any group, where no member is named (KAFKA-18060): the first three versions of
        TxnOffsetCommit can name none, and clients of later ones need not.

        Raises:
            UnknownMemberId, StaleMemberEpoch: it may not.
            IllegalGeneration: it may not, and speaks the classic protocol.
            UnsupportedVersion: a member of the consumer protocol must use a version that knows member epochs.
        """
        names_nobody = generation_or_epoch < 0 and not member_id and instance_id is None
        if (generation_or_epoch < 0 and not self.members) or (in_transaction and names_nobody):
            return
        member = self.check_member(member_id)
        is_old = api_version < FIRST_COMMIT_WITH_MEMBER_EPOCH and not in_transaction
        if is_old and not member.uses_classic_protocol:
            raise UnsupportedVersion(
                f"members of the consumer protocol commit with version {FIRST_COMMIT_WITH_MEMBER_EPOCH} or later"
            )
        self._check_epoch(member, generation_or_epoch)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """See that a member may read the group's offsets; anybody may who names no member."""
        if member_id is None and member_epoch < 0:
            return
        self._check_epoch(self.check_member(member_id or ""), member_epoch)

    def check_deletable(self) -> None:
        """See that the group may be deleted."""
        if self.members:
            raise NonEmptyGroup(f"group {self.group_id} has {len(self.members)} members")

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether members consume the topic."""
        return any(topic in names for names in self._subscriptions())

    def tombstones(self) -> Sequence[CoordinatorRecord]:
        """Return what removes the group from the log; the order is that in which replay can take it apart."""
        group_id = self.group_id
        keys: list[RecordKey] = []
        keys += [ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=name) for name in self.members]
        keys += [ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=name) for name in self.target]
        keys.append(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id))
        keys += [ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=name) for name in self.members]
        keys += [
            ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern)
            for pattern in self.expressions
        ]
        if self.has_partition_metadata:
            keys.append(ConsumerGroupPartitionMetadataKey(group_id=group_id))
        keys.append(ConsumerGroupMetadataKey(group_id=group_id))
        return [CoordinatorRecord(key, None) for key in keys]

    # Members

    def check_member(self, member_id: str) -> ConsumerMember:
        """Return a member.

        Raises:
            UnknownMemberId: there is none of this id.
        """
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"group {self.group_id} has no member {member_id!r}")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the member that has an instance id."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    @property
    def classic_members(self) -> list[ConsumerMember]:
        """The members that speak the classic protocol."""
        return [member for member in self.members.values() if member.uses_classic_protocol]

    def _check_epoch(self, member: ConsumerMember, epoch: int) -> None:
        if epoch == member.epoch:
            return
        text = f"member {member.member_id} of group {self.group_id} is at epoch {member.epoch}, not {epoch}"
        raise IllegalGeneration(text) if member.uses_classic_protocol else StaleMemberEpoch(text)

    # Subscriptions and partitions

    def subscription(self, member: ConsumerMember) -> frozenset[str]:
        """Return the names of the topics that a member subscribes to, by name or by its regular expression.

        Of what the expression matches, only topics that the member may describe.
        """
        resolved = self.expressions.get(member.subscribed_topic_regex)
        if resolved is None:
            return member.subscribed_topic_names
        visible = self.visible.get(member.member_id)
        topics = resolved.topics if visible is None else resolved.topics & visible
        return topics | member.subscribed_topic_names if member.subscribed_topic_names else topics

    def subscribed_topics(self) -> frozenset[str]:
        """Return the names of the topics that any member subscribes to; some may not exist."""
        return frozenset().union(*self._subscriptions())

    def _subscriptions(self) -> Collection[frozenset[str]]:
        """Return sets of names that make up all subscriptions; equal ones only once."""
        by_name = {member.subscribed_topic_names for member in self.members.values()}
        by_expression = {
            resolved.topics
            for pattern, resolved in self.expressions.items()
            if pattern in self._expression_subscribers
        }
        return by_name | by_expression

    @property
    def subscribed_expressions(self) -> Collection[str]:
        """The regular expressions that members subscribe to."""
        return self._expression_subscribers.keys()

    def owner(self, topic_id: UUID, partition: int) -> str | None:
        """Return the id of the member that owns a partition or has not given it up yet, or None if it is free."""
        return self._owners.get(topic_id, {}).get(partition)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Return whether others still own part of what the member shall get."""
        return any(
            self.owner(topic_id, index) not in {None, member.member_id}
            for topic_id, indexes in self.target.get(member.member_id, NO_PARTITIONS).items()
            for index in indexes
        )

    def preferred_assignor(self, supported: Sequence[str]) -> str:
        """Return the assignor that most members ask for, of those there are; the first one if nobody asks."""
        votes = Counter(member.server_assignor for member in self.members.values())
        return max(supported, key=lambda name: votes[name])

    def existing_topics(self, topics: Mapping[str, Topic]) -> dict[UUID, Topic]:
        """Return the topics that exist and that any member subscribes to."""
        return {topics[name].id: topics[name] for name in self.subscribed_topics() if name in topics}

    # What records change

    def update_member(self, member: ConsumerMember) -> None:
        """Take over a member's new state; a new member comes into the group."""
        former = self.members.get(member.member_id)
        if former is not None:
            self._forget(former)
        self.members[member.member_id] = member
        for partitions in (member.assigned, member.pending_revocation):
            for topic_id, indexes in partitions.items():
                self._owners.setdefault(topic_id, {}).update(dict.fromkeys(indexes, member.member_id))
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if member.subscribed_topic_regex:
            self._expression_subscribers[member.subscribed_topic_regex] += 1

    def remove_member(self, member_id: str) -> None:
        """Take a member out of the group."""
        self.doubted_since_ms.pop(member_id, None)
        self.reported.pop(member_id, None)
        self.visible.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is not None:
            self._forget(member)

    def _forget(self, member: ConsumerMember) -> None:
        """Undo what follows from a member, as far as no other has taken its place."""
        for partitions in (member.assigned, member.pending_revocation):
            for topic_id, indexes in partitions.items():
                owners = self._owners.get(topic_id, {})
                for index in indexes:
                    if owners.get(index) == member.member_id:
                        del owners[index]
                if not owners:
                    self._owners.pop(topic_id, None)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]
        if member.subscribed_topic_regex:
            self._expression_subscribers[member.subscribed_topic_regex] -= 1
            if not self._expression_subscribers[member.subscribed_topic_regex]:
                del self._expression_subscribers[member.subscribed_topic_regex]
