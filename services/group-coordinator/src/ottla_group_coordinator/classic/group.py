"""A classic group: its members, its generation, and what follows from them.

Plain data with the questions and small changes that concern a group alone. What takes time or answers others
(rebalances, sessions) stands in `rebalance`. `members` keeps the order in which they came; where Kafka takes any
member, ours is the first, so that the same events always give the same group.

Source: ClassicGroup in Kafka.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import ClassVar

from ottla_group_coordinator.classic.member import ClassicMember, MemberProtocol, ParkedRequest
from ottla_group_coordinator.classic.state import PREVIOUS_STATES, ClassicGroupState
from ottla_group_coordinator.classic.subscription import MalformedSubscription, subscribed_topics
from ottla_group_coordinator.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)
from ottla_group_coordinator.group import CONSUMER_PROTOCOL_TYPE, Group, GroupType
from ottla_group_coordinator.records import GroupMetadataKey
from ottla_group_coordinator.runtime.turn import CoordinatorRecord


class ClassicGroup(Group):
    """A group of the classic protocol, or one that only keeps offsets.

    Attributes:
        generation: counts rebalances; requests of another generation are refused.
        state: where the group stands.
        previous_state: where it stood before.
        protocol_name: what the members have agreed on, such as ``range``; None before the first generation and
            in an empty group.
        leader_id: the member that assigns.
        members: by member id, in the order in which they came.
        static_members: `group.instance.id` → member id.
        pending_join: ids that were given out and have not joined yet (KIP-394).
        pending_sync: members that know their generation and have not asked for their assignment yet.
        current_state_timestamp_ms: when the state was entered; None if a record of old does not say.
        subscribed_topics: topics that the members consume; None if that is unknown.
        initial_delay_deadline_ms: until when a first rebalance may be put off for more members.
        rebalance_began_ms: when the present rebalance began, as deadlines are counted; None while there is none.
        new_member_added: whether another member has come during the present delay.
        awaiting_join_count: members whose JoinGroup waits.
    """

    type: ClassVar[GroupType] = GroupType.CLASSIC

    def __init__(self, group_id: str, *, timestamp_ms: int | None) -> None:
        self.group_id = group_id
        self.state = ClassicGroupState.EMPTY
        self.previous_state = ClassicGroupState.DEAD
        self.current_state_timestamp_ms = timestamp_ms
        self.generation = 0
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_join: set[str] = set()
        self.pending_sync: set[str] = set()
        self.subscribed_topics: frozenset[str] | None = None
        self.initial_delay_deadline_ms = 0
        self.rebalance_began_ms: int | None = None
        self.new_member_added = False
        self.awaiting_join_count = 0
        self._protocol_type = ""
        self._supporters: Counter[str] = Counter()

    # What every group can say of itself

    @property
    def state_name(self) -> str:
        """The state as Kafka's tools write it."""
        return self.state.value

    @property
    def protocol_type(self) -> str:
        """What the members say they are; empty for a group that has never had any."""
        return self._protocol_type

    @protocol_type.setter
    def protocol_type(self, value: str) -> None:
        self._protocol_type = value

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members; ids that were merely given out do not count."""
        return self.state is ClassicGroupState.EMPTY

    @property
    def empty_since_ms(self) -> int | None:
        """When the last member went; None if there are members, have never been any, or it is unknown."""
        return self.current_state_timestamp_ms if self.is_empty and self._protocol_type else None

    @property
    def offsets_may_expire(self) -> bool:
        """Whether the age of offsets counts at present: not while members come and go, or do who knows what.

        Source: `ClassicGroup.offsetExpirationCondition` in Kafka.
        """
        if self.is_empty or not self._protocol_type:
            return True
        return (
            self.state is ClassicGroupState.STABLE
            and self._protocol_type == CONSUMER_PROTOCOL_TYPE
            and self.subscribed_topics is not None
        )

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
        """See that a member may commit offsets; its session begins anew, unless it is in a transaction.

        Raises:
            UnknownMemberId, IllegalGeneration, FencedInstanceId, RebalanceInProgress: it may not.
        """
        if self.is_empty and generation_or_epoch < 0:
            return
        if generation_or_epoch < 0 and not member_id and instance_id is None:
            if in_transaction:
                return
            raise UnknownMemberId("a group that has members takes commits from them alone")
        member = self.check_member(member_id, instance_id)
        self.check_generation(generation_or_epoch)
        if in_transaction:
            return
        if self.state is ClassicGroupState.COMPLETING_REBALANCE:
            raise RebalanceInProgress
        member.session_deadline_ms = max(member.session_deadline_ms, now_ms + member.session_timeout_ms)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Anybody may read the offsets of a classic group."""
        if self.state is ClassicGroupState.DEAD:
            raise GroupIdNotFound(f"group {self.group_id} is being removed")

    def check_deletable(self) -> None:
        """See that the group may be deleted."""
        if self.state is ClassicGroupState.DEAD:
            raise GroupIdNotFound(f"group {self.group_id} is being removed")
        if not self.is_empty:
            raise NonEmptyGroup(f"group {self.group_id} has {len(self.members)} members")

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether members consume the topic; of consumers whose topics are unknown, take it for granted."""
        if self.subscribed_topics is None:
            return self._protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed_topics

    def tombstones(self) -> Iterable[CoordinatorRecord]:
        """Return what removes the group from the log, its offsets aside."""
        return (CoordinatorRecord(GroupMetadataKey(group=self.group_id), None),)

    # Checks of requests

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """Return the member that a request names.

        Raises:
            UnknownMemberId: there is no such member.
            FencedInstanceId: another member has taken over the instance id.
        """
        if instance_id is not None:
            owner = self.static_members.get(instance_id)
            if owner is None:
                raise UnknownMemberId(f"no member of group {self.group_id} has the instance id {instance_id}")
            if owner != member_id:
                raise FencedInstanceId(f"the instance id {instance_id} belongs to another member now")
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"group {self.group_id} has no member {member_id!r}")
        return member

    def check_generation(self, generation: int) -> None:
        """See that a request is of the present generation.

        Raises:
            IllegalGeneration: it is not.
        """
        if generation != self.generation:
            raise IllegalGeneration(f"group {self.group_id} is at generation {self.generation}, not {generation}")

    def supports(self, protocol_type: str, protocol_names: Iterable[str]) -> bool:
        """Return whether a member with these protocols can join: all others know one of them too."""
        if self.is_empty:
            return bool(protocol_type) and any(True for _ in protocol_names)
        return protocol_type == self._protocol_type and any(
            self._supporters[name] == len(self.members) for name in protocol_names
        )

    # Members

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Take a member in; the first one decides the group's protocol type and leads."""
        assert member.member_id not in self.members, "a member is added once"
        assert member.awaiting_join is None, "parking is counted by `park_join`"
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members, "an instance id belongs to one member"
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self._protocol_type = protocol_type
        assert protocol_type == self._protocol_type, "checked by `supports`"
        self.members[member.member_id] = member
        self._supporters.update(protocol.name for protocol in member.protocols)
        self.pending_join.discard(member.member_id)
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member_id: str) -> None:
        """Take out a member, or an id that was given out; its waiting requests must have been answered."""
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        assert member.awaiting_join is None, "a waiting JoinGroup is answered before its member goes"
        assert member.awaiting_sync is None, "a waiting SyncGroup is answered before its member goes"
        self._supporters.subtract(protocol.name for protocol in member.protocols)
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            # The newest is the likeliest to live: members are restarted one after the other, the oldest first. One
            # that died while its JoinGroup waited, and then leads, holds up the group for a session timeout more.
            self.leader_id = next(reversed(self.members), None)

    def replace_static_member(self, former: ClassicMember, successor: ClassicMember) -> None:
        """Put a restarted static member in the place of its former self, in every role that it has."""
        assert former.instance_id == successor.instance_id, "only the same instance can take over"
        assert former.instance_id is not None, "only static members can take over"
        assert former.awaiting_join is None, "a waiting JoinGroup is answered before its member goes"
        assert former.awaiting_sync is None, "a waiting SyncGroup is answered before its member goes"
        self.members = {
            other_id if other is not former else successor.member_id: other if other is not former else successor
            for other_id, other in self.members.items()
        }
        self.static_members[former.instance_id] = successor.member_id
        self._supporters.subtract(protocol.name for protocol in former.protocols)
        self._supporters.update(protocol.name for protocol in successor.protocols)
        if self.leader_id == former.member_id:
            self.leader_id = successor.member_id
        if former.member_id in self.pending_sync:
            self.pending_sync.remove(former.member_id)
            self.pending_sync.add(successor.member_id)

    def set_protocols(self, member: ClassicMember, protocols: tuple[MemberProtocol, ...]) -> None:
        """Take over what a member offers now."""
        self._supporters.subtract(protocol.name for protocol in member.protocols)
        member.protocols = protocols
        self._supporters.update(protocol.name for protocol in protocols)

    # Waiting for all to join

    def park_join(self, member: ClassicMember, request: ParkedRequest) -> ParkedRequest | None:
        """Let a JoinGroup wait for the other members; return the one of the same member that waited before."""
        former, member.awaiting_join = member.awaiting_join, request
        self.awaiting_join_count += former is None
        return former

    def take_join(self, member: ClassicMember) -> ParkedRequest | None:
        """Return a member's waiting JoinGroup, which is to be answered now."""
        request, member.awaiting_join = member.awaiting_join, None
        self.awaiting_join_count -= request is not None
        return request

    @property
    def has_all_members_joined(self) -> bool:
        """Whether nobody is waited for, neither members nor those who were given an id."""
        return self.awaiting_join_count == len(self.members) and not self.pending_join

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the group waits for its slowest member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is one who has joined, else the newest of them; return whether there is one."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        newest_first = reversed(self.members.values())
        joined = next((member for member in newest_first if member.awaiting_join is not None), None)
        if joined is not None:
            self.leader_id = joined.member_id
        return joined is not None

    # Generations

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance can begin; not when one is already being prepared."""
        return self.state in PREVIOUS_STATES[ClassicGroupState.PREPARING_REBALANCE]

    def enter(self, state: ClassicGroupState, timestamp_ms: int) -> None:
        """Go to another state."""
        assert self.state in PREVIOUS_STATES[state], f"{self.group_id}: {self.state} → {state}"
        self.previous_state, self.state = self.state, state
        self.current_state_timestamp_ms = timestamp_ms

    def begin_generation(self, timestamp_ms: int) -> None:
        """Begin the next generation with the present members, or stay empty if there are none."""
        self.generation += 1
        self.pending_sync.clear()
        self.protocol_name = self.select_protocol() if self.members else None
        self.update_subscribed_topics()
        self.enter(
            ClassicGroupState.COMPLETING_REBALANCE if self.members else ClassicGroupState.EMPTY,
            timestamp_ms,
        )

    def select_protocol(self, replacements: Mapping[str, ClassicMember] | None = None) -> str:
        """Return the protocol that most members like best, of those that all know; the first of several equals.

        Args:
            replacements: members to count in place of those with the given ids, who are thought to be gone.
        """
        members = [(replacements or {}).get(member_id, member) for member_id, member in self.members.items()]
        assert members, "nobody votes in an empty group"
        supporters = Counter(protocol.name for member in members for protocol in member.protocols)
        votes = Counter(
            next(protocol.name for protocol in member.protocols if supporters[protocol.name] == len(members))
            for member in members
        )
        return votes.most_common(1)[0][0]

    def update_subscribed_topics(self) -> None:
        """Learn from the members' metadata which topics they consume, if they are consumers and say so legibly."""
        self.subscribed_topics = None
        if self._protocol_type != CONSUMER_PROTOCOL_TYPE:
            return
        if not self.members:
            self.subscribed_topics = frozenset()
        elif self.protocol_name is not None:
            try:
                self.subscribed_topics = frozenset().union(
                    *(subscribed_topics(member.metadata(self.protocol_name)) for member in self.members.values())
                )
            except MalformedSubscription:
                # Clients may put into their metadata what they like; then every topic counts as consumed.
                self.subscribed_topics = None
