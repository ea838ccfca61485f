"""A group changes its protocol while it runs: upgrade from classic to consumer, and downgrade back.

A classic group of consumers is upgraded when the first member of the consumer protocol joins. The members that are
there stay as *classic members*: they go on with JoinGroup, SyncGroup and Heartbeat (`classic_members`). When the
last member of the consumer protocol has gone, the group is downgraded. Both depend on
`group.consumer.migration.policy`.

The records of either must fit into one batch. If only some of them were stored, the group would be torn between the
protocols.

Source: KIP-848; `convertToConsumerGroup`, `convertToClassicGroup` and what they call in Kafka.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_core.cluster.state.model import ClusterState, Topic
from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.classic.member import ClassicMember, MemberProtocol
from ottla_group_coordinator.classic.rebalance import forget_timers, prepare_rebalance, refuse_waiting, renew_session
from ottla_group_coordinator.classic.snapshot import fit_together, snapshot
from ottla_group_coordinator.classic.state import ClassicGroupState
from ottla_group_coordinator.consumer.embedded_protocol import (
    MalformedConsumerProtocol,
    read_assignment,
    read_subscription,
    write_assignment,
)
from ottla_group_coordinator.consumer.group import ConsumerGroup
from ottla_group_coordinator.consumer.member import ConsumerMember, current_assignment_record, metadata_record
from ottla_group_coordinator.consumer.partitions import Partitions, union
from ottla_group_coordinator.consumer.subscribed_metadata import NO_TOPICS, metadata_hash
from ottla_group_coordinator.consumer.target_assignment import target_epoch_record, target_record
from ottla_group_coordinator.errors import GroupIdNotFound
from ottla_group_coordinator.group import CONSUMER_PROTOCOL_TYPE
from ottla_group_coordinator.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from ottla_group_coordinator.runtime.turn import CoordinatorRecord, Turn
from ottla_group_coordinator.shard_state import ShardState

STICKY_ASSIGNORS = frozenset({"sticky", "cooperative-sticky"})
"""Assignors of which some clients put into an assignment what the member said of itself; no member ever reads it."""

UPGRADE_POLICIES = frozenset({"bidirectional", "upgrade"})
DOWNGRADE_POLICIES = frozenset({"bidirectional", "downgrade"})


def upgraded(shard: ShardState, classic: ClassicGroup) -> ConsumerGroup:
    """Return what a classic group would be in the consumer protocol; it is not in the shard yet.

    Raises:
        GroupIdNotFound: it cannot be upgraded, so for the consumer protocol there is no such group.
    """
    refusal = f"the classic group {classic.group_id} cannot become a consumer group"
    if shard.settings.consumer_migration_policy not in UPGRADE_POLICIES:
        raise GroupIdNotFound(f"{refusal}: upgrades are disabled")
    if classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise GroupIdNotFound(f"{refusal}: its members are of type {classic.protocol_type!r}")
    if len(classic.members) > shard.settings.consumer_group_max_size:
        raise GroupIdNotFound(f"{refusal}: it has more members than {shard.settings.consumer_group_max_size}")
    group = ConsumerGroup(classic.group_id)
    group.epoch = group.assignment_epoch = classic.generation
    protocol_name = classic.select_protocol()
    assigned_by = classic.protocol_name or protocol_name
    claims: dict[str, Partitions] = {}
    for former in classic.members.values():
        try:
            member, claims[former.member_id] = _upgraded_member(
                shard.cluster_state, classic.generation, former, protocol_name, assigned_by
            )
        except MalformedConsumerProtocol as error:
            raise GroupIdNotFound(f"{refusal}: what {former.member_id} says is malformed: {error}") from None
        group.update_member(member)
    for member_id, claimed in claims.items():
        _grant_claims(group, group.members[member_id], claimed)
    group.target = {member.member_id: member.assigned for member in group.members.values()}
    topics = group.existing_topics(shard.cluster_state.topics)
    # A member that joins raises the epoch, but not a static one that comes back; a hash that does not match does.
    is_whole = classic.state is ClassicGroupState.STABLE and _is_assigned(group, topics)
    group.metadata_hash = metadata_hash(topics.values()) if is_whole else NO_TOPICS
    if not fit_together(_upgrade_records(classic, group), shard.settings.batch_bytes_max):
        raise GroupIdNotFound(f"{refusal}: it is too large to be stored at once")
    return group


def _upgraded_member(
    state: ClusterState, generation: int, former: ClassicMember, protocol_name: str, assigned_by: str
) -> tuple[ConsumerMember, Partitions]:
    """Return a member that owns what it was assigned last, and what it said that it owned when it joined last.

    It learns from its next Heartbeat that it must join again.

    Args:
        state: the topics.
        generation: of the group.
        former: the member.
        protocol_name: the assignor on which the members agree now.
        assigned_by: the assignor that has made its assignment. Kafka refuses the data of any; but librdkafka's
            leaders hand a member its own data back, from its second rebalance on with ``cooperative-sticky``.
    """
    for protocol in former.protocols:
        read_subscription(protocol.metadata, state.topics)
    subscription = read_subscription(former.metadata(protocol_name), state.topics)
    assignment = read_assignment(former.assignment, state.topics)
    if assignment.user_data and assigned_by not in STICKY_ASSIGNORS:
        raise MalformedConsumerProtocol("its assignment has data of a custom assignor, which would be lost")
    member = ConsumerMember(
        member_id=former.member_id,
        epoch=generation,
        previous_epoch=generation,
        instance_id=former.instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=former.rebalance_timeout_ms,
        client_id=former.client_id,
        client_host=former.client_host,
        subscribed_topic_names=subscription.topics,
        assigned=assignment.partitions,
        classic=classic_metadata(former.session_timeout_ms, former.protocols),
    )
    return member, subscription.owned


def _is_assigned(group: ConsumerGroup, topics: Mapping[UUID, Topic]) -> bool:
    """Return whether every partition has an owner: not if members have left, or topics have grown unnoticed."""
    return all(
        group.owner(topic_id, index) is not None
        for topic_id, topic in topics.items()
        for index in range(len(topic.partitions))
    )


def _grant_claims(group: ConsumerGroup, member: ConsumerMember, claimed: Partitions) -> None:
    """Count as owned what a member said that it owned, as far as nobody was assigned it.

    Kafka's coordinator does not. But in the middle of a cooperative rebalance a member still uses what the new
    assignment takes from it, until it has asked for that assignment.
    """
    free = {
        topic_id: frozenset(index for index in indexes if group.owner(topic_id, index) is None)
        for topic_id, indexes in claimed.items()
    }
    free = {topic_id: indexes for topic_id, indexes in free.items() if indexes}
    if free:
        group.update_member(replace(member, assigned=union(member.assigned, free)))


def classic_metadata(session_timeout_ms: int, protocols: Collection[MemberProtocol]) -> ClassicMemberMetadata:
    """Return what is kept of a classic member beside its subscription."""
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=tuple(
            ClassicProtocol(name=protocol.name, metadata=protocol.metadata) for protocol in protocols
        ),
    )


def upgrade(shard: ShardState, turn: Turn, classic: ClassicGroup, group: ConsumerGroup) -> ConsumerGroup:
    """Store a classic group as what `upgraded` has made of it; whoever waits in it is told to join again."""
    _send_away_who_waits(turn, classic)
    forget_timers(shard, classic)
    assert not turn.records, "the records of an upgrade begin a batch, into which they fit"
    for record in _upgrade_records(classic, group):
        shard.write(turn, *record)
    stored = shard.groups[group.group_id]
    assert isinstance(stored, ConsumerGroup), "the records have made one"
    return stored


def _send_away_who_waits(turn: Turn, classic: ClassicGroup) -> None:
    """Have every member that waits in a classic group ask again, in a way that all clients keep to themselves.

    Kafka answers JoinGroup with REBALANCE_IN_PROGRESS too, which librdkafka hands to the application as an error.
    """
    for member in classic.members.values():
        is_syncing = member.awaiting_sync is not None
        error = ErrorCode.rebalance_in_progress if is_syncing else ErrorCode.coordinator_load_in_progress
        refuse_waiting(turn, classic, member, error, member_id=member.member_id)


def _upgrade_records(classic: ClassicGroup, group: ConsumerGroup) -> list[CoordinatorRecord]:
    """Return what takes a classic group out of the log and puts into it what it becomes."""
    group_id, members = group.group_id, group.members.values()
    return [
        *classic.tombstones(),
        *(metadata_record(group_id, member) for member in members),
        CoordinatorRecord(
            ConsumerGroupMetadataKey(group_id=group_id),
            ConsumerGroupMetadataValue(epoch=group.epoch, metadata_hash=group.metadata_hash),
        ),
        *(target_record(group_id, member_id, partitions) for member_id, partitions in group.target.items()),
        target_epoch_record(group_id, group.assignment_epoch),
        *(current_assignment_record(group_id, member) for member in members),
    ]


def downgraded(shard: ShardState, turn: Turn, group: ConsumerGroup, leaving: Collection[str]) -> ClassicGroup | None:
    """Return what a group becomes in the classic protocol when some members leave; it is not in the shard yet.

    Members count as assigned what they own, so that a group which is upgraded again at once is not mistaken.

    Returns:
        None if the group cannot be downgraded, or need not.
    """
    staying = [member for member in group.members.values() if member.member_id not in leaving]
    if (
        not staying
        or not all(member.uses_classic_protocol for member in staying)
        or shard.settings.consumer_migration_policy not in DOWNGRADE_POLICIES
        or len(staying) > shard.settings.group_max_size
    ):
        return None
    try:
        classic = _downgraded_group(shard.cluster_state, group, staying, turn.timestamp_ms)
    except MalformedConsumerProtocol:
        # It comes from a log of Kafka's, which looks less closely at what members say.
        return None
    # What the turn has written so far takes its part of the batch.
    records = [*turn.records, *group.tombstones(), snapshot(classic)]
    return classic if fit_together(records, shard.settings.batch_bytes_max) else None


def _downgraded_group(
    state: ClusterState, group: ConsumerGroup, staying: Collection[ConsumerMember], timestamp_ms: int
) -> ClassicGroup:
    classic = ClassicGroup(group.group_id, timestamp_ms=timestamp_ms)
    classic.generation = group.epoch
    for member in staying:
        classic.add(_downgraded_member(member), CONSUMER_PROTOCOL_TYPE)
    classic.state = ClassicGroupState.STABLE
    classic.protocol_name = classic.select_protocol()
    classic.update_subscribed_topics()
    for member in staying:
        former = classic.members[member.member_id]
        owned = union(member.assigned, member.pending_revocation)
        former.assignment = write_assignment(owned, former.metadata(classic.protocol_name), state)
    return classic


def _downgraded_member(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None, "only classic members stay"
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=tuple(
            MemberProtocol(protocol.name, protocol.metadata) for protocol in member.classic.supported_protocols
        ),
    )


def downgrade(
    shard: ShardState, turn: Turn, group: ConsumerGroup, classic: ClassicGroup, *, must_rebalance: bool
) -> None:
    """Store a group as what `downgraded` has made of it; the timers of its members must have been cancelled.

    The record of a group that has to rebalance names no leader. Should it be loaded before the rebalance is over,
    that makes the group rebalance; otherwise it would go on without the partitions of whoever has left.
    """
    for tombstone in group.tombstones():
        shard.write(turn, *tombstone)
    shard.groups[classic.group_id] = classic
    turn.records.append(snapshot(classic, without_leader=must_rebalance))
    for member in classic.members.values():
        renew_session(shard, classic, member, turn.now_ms)
    if must_rebalance:
        prepare_rebalance(shard, turn, classic)
