"""Members that speak the classic protocol in a group of the consumer protocol, while the group is migrated.

To them a member epoch is a generation. Heartbeat tells them to join when the group epoch has risen, when they have to
give up partitions, and when what they wait for has become free. Their JoinGroup carries what they own, which is
what the other members say in heartbeats, and is answered at once; the answer to SyncGroup is made from what they are
assigned now. Nobody leads, since the coordinator assigns. Who was told to join, or has joined and not synced,
must do so within its rebalance timeout.

Source: the `classicGroup…ToConsumerGroup` methods of GroupMetadataManager in Kafka, KIP-848.
"""

from collections.abc import Sequence
from dataclasses import replace

from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.response import JoinGroupResponse
from kio.schema.leave_group.v5.request import MemberIdentity
from kio.schema.leave_group.v5.response import MemberResponse
from kio.schema.sync_group.v5.request import SyncGroupRequest
from kio.schema.sync_group.v5.response import SyncGroupResponse
from kio.static.primitive import i32

from ottla_core.errors import KafkaError
from ottla_group_coordinator.classic.join import FIRST_MEMBER_ID_REQUIRED, NO_MEMBER_ID, Joining
from ottla_group_coordinator.classic.leave import left
from ottla_group_coordinator.classic.member import ParkedRequest
from ottla_group_coordinator.classic.responses import NO_LEADER, NO_THROTTLE, join_refused
from ottla_group_coordinator.consumer.departure import (
    ClassicJoinTimeout,
    ClassicSyncTimeout,
    check_identity,
    forget_timers,
    remove_members,
    renew_session,
)
from ottla_group_coordinator.consumer.embedded_protocol import (
    EmbeddedSubscription,
    MalformedConsumerProtocol,
    read_subscription,
    write_assignment,
)
from ottla_group_coordinator.consumer.group import ConsumerGroup
from ottla_group_coordinator.consumer.member import ConsumerMember, MemberState
from ottla_group_coordinator.consumer.membership import (
    bring_forward,
    check_room,
    check_storable,
    replace_static_member,
    succeed,
    update_member,
)
from ottla_group_coordinator.consumer.migration import classic_metadata, downgrade, downgraded
from ottla_group_coordinator.errors import (
    IllegalGeneration,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    UnknownMemberId,
)
from ottla_group_coordinator.group import CONSUMER_PROTOCOL_TYPE
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState


def join(shard: ShardState, turn: Turn, group: ConsumerGroup, joining: Joining) -> None:
    """Take a JoinGroup for a group of the consumer protocol that has members.

    Raises:
        GroupMaxSizeReached, InconsistentGroupProtocol, InvalidRequest: the client cannot join so.
        UnknownMemberId, FencedInstanceId: it is not the member that it says it is.
    """
    check_room(shard, group, joining.member_id, joining.instance_id)
    subscription = _checked_subscription(shard, group, joining)
    if joining.member_id == NO_MEMBER_ID:
        joining = replace(joining, member_id=f"{joining.instance_id or joining.client_id}-{shard.draw_uuid()}")
        if joining.instance_id is None and joining.parked.api_version >= FIRST_MEMBER_ID_REQUIRED:
            refusal = join_refused(ErrorCode.member_id_required, joining.member_id, joining.parked.api_version)
            turn.answer(joining.parked.token, refusal)
            return
        replaced = group.static_member(joining.instance_id)
    else:
        replaced = None
        if joining.instance_id is not None:
            check_identity(group, joining.member_id, joining.instance_id)
    known = group.members.get(joining.member_id) if replaced is None else succeed(replaced, joining.member_id)
    # Who was removed and comes anew may still use what it had, which may be somebody else's now. It is given what is
    # free, and gives up the rest when SyncGroup tells it so; a refusal would just make it join in the same way again.
    said = _updated(known, joining, subscription)
    check_storable(shard, group, said)
    # From here on nothing is refused.
    if replaced is not None:
        assert known is not None, "who takes a place has what was there"
        replace_static_member(shard, turn, group, replaced, known)
    former_epoch = group.epoch
    update_member(shard, turn, group, known, said)
    member = bring_forward(shard, turn, group, said, subscription.owned)
    shard.timers.cancel(ClassicJoinTimeout(group.group_id, member.member_id))
    protocol_name = _protocol_name(member)
    if replaced is not None and not replaced.uses_classic_protocol:
        has_epoch_risen = group.epoch > former_epoch
        agreed = _downgrade_after_replacement(shard, turn, group, member, has_epoch_risen=has_epoch_risen)
        protocol_name = agreed or protocol_name
    turn.answer(joining.parked.token, _joined(member, protocol_name))
    if shard.groups[group.group_id] is group:
        renew_session(shard, group, member, turn.now_ms)
        sync_deadline_ms = turn.now_ms + member.rebalance_timeout_ms
        shard.timers.set(ClassicSyncTimeout(group.group_id, member.member_id), sync_deadline_ms)


def _checked_subscription(shard: ShardState, group: ConsumerGroup, joining: Joining) -> EmbeddedSubscription:
    """Return what the client subscribes to, if it has an assignor that all other classic members have.

    It says so once for each assignor. All of that must be legible, since the group may come to agree on any of them
    when it is downgraded.
    """
    offered = {protocol.name for protocol in joining.protocols}
    for member in group.classic_members:
        if member.classic is not None and member.member_id != joining.member_id:
            offered &= {protocol.name for protocol in member.classic.supported_protocols}
    if joining.protocol_type != CONSUMER_PROTOCOL_TYPE or not offered:
        raise InconsistentGroupProtocol(
            f"group {group.group_id} is one of consumers, and not all of them know one of "
            f"{[protocol.name for protocol in joining.protocols]} of type {joining.protocol_type!r}"
        )
    try:
        said = [read_subscription(protocol.metadata, shard.cluster_state.topics) for protocol in joining.protocols]
    except MalformedConsumerProtocol as error:
        raise InconsistentGroupProtocol(f"the subscription is malformed: {error}") from None
    return said[0]


def _updated(known: ConsumerMember | None, joining: Joining, subscription: EmbeddedSubscription) -> ConsumerMember:
    member = ConsumerMember(member_id=joining.member_id) if known is None else known
    said = replace(
        member,
        instance_id=joining.instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        client_id=joining.client_id,
        client_host=joining.client_host,
        subscribed_topic_names=subscription.topics,
        subscribed_topic_regex="",
        classic=classic_metadata(joining.session_timeout_ms, joining.protocols),
    )
    return member if known is not None and said == member else said


def _joined(member: ConsumerMember, protocol_name: str) -> JoinGroupResponse:
    return JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        generation_id=i32(member.epoch),
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=protocol_name,
        leader=NO_LEADER,
        member_id=member.member_id,
        members=(),
    )


def _protocol_name(member: ConsumerMember) -> str:
    """Return what a member takes for the group's assignor: the one it likes best, since none is used."""
    assert member.classic is not None, "only classic members ask"
    return member.classic.supported_protocols[0].name


def _downgrade_after_replacement(
    shard: ShardState, turn: Turn, group: ConsumerGroup, joined: ConsumerMember, *, has_epoch_risen: bool
) -> str | None:
    """Make the group a classic one if the last member of the consumer protocol came back as a classic one.

    Without a rebalance it goes on if all members have what they shall have, and were told the protocol on which they
    now agree. The one that has just joined will be.

    Returns:
        The protocol on which the members agree, or None if the group stays what it is.
    """
    classic = downgraded(shard, turn, group, ())
    if classic is None:
        return None
    for member_id in group.members:
        forget_timers(shard, group.group_id, member_id)
    goes_on = not has_epoch_risen and all(
        member.is_reconciled_to(group.epoch)
        and (member.member_id == joined.member_id or _protocol_name(member) == classic.protocol_name)
        for member in group.members.values()
    )
    downgrade(shard, turn, group, classic, must_rebalance=not goes_on)
    return classic.protocol_name


def sync(
    shard: ShardState, turn: Turn, group: ConsumerGroup, request: SyncGroupRequest, parked: ParkedRequest
) -> None:
    """Tell a classic member what it is assigned.

    Raises:
        UnknownMemberId, FencedInstanceId, IllegalGeneration: it is no such member, or must join first.
        RebalanceInProgress: it must join again.
        InconsistentGroupProtocol: it has understood another protocol (KIP-559).
    """
    member = _checked_member(group, request.member_id, request.group_instance_id, request.generation_id)
    # Who has to give up partitions has joined already: it learns here what it keeps, and joins once more when it has.
    # Who joined when the group was a classic one may have been told another protocol, and is told ours when it joins.
    if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _expect_join(shard, turn, group, member)
        raise RebalanceInProgress
    protocol_name = _protocol_name(member)
    if request.protocol_type not in {None, CONSUMER_PROTOCOL_TYPE} or request.protocol_name not in {
        None,
        protocol_name,
    }:
        raise InconsistentGroupProtocol(
            f"member {member.member_id} was told {protocol_name!r} of type {CONSUMER_PROTOCOL_TYPE!r}"
        )
    assignment = _written_assignment(shard, member)
    shard.timers.cancel(ClassicSyncTimeout(group.group_id, member.member_id))
    renew_session(shard, group, member, turn.now_ms)
    turn.answer(
        parked.token,
        SyncGroupResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=protocol_name,
            assignment=assignment,
        ),
    )


def _written_assignment(shard: ShardState, member: ConsumerMember) -> bytes:
    assert member.classic is not None, "only classic members sync"
    try:
        return write_assignment(member.assigned, member.classic.supported_protocols[0].metadata, shard.cluster_state)
    except MalformedConsumerProtocol as error:
        # It comes from a log of Kafka's, which looks less closely at what members say.
        raise InconsistentGroupProtocol(f"the subscription is malformed: {error}") from None


def heartbeat(shard: ShardState, turn: Turn, group: ConsumerGroup, request: HeartbeatRequest) -> None:
    """Renew a classic member's session.

    Raises:
        UnknownMemberId, FencedInstanceId, IllegalGeneration: it is no such member.
        RebalanceInProgress: it is, and must join again.
    """
    member = _checked_member(group, request.member_id, request.group_instance_id, request.generation_id)
    renew_session(shard, group, member, turn.now_ms)
    is_free = member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)
    if group.epoch > member.epoch or member.state is MemberState.UNREVOKED_PARTITIONS or is_free:
        _expect_join(shard, turn, group, member)
        raise RebalanceInProgress


def leave(
    shard: ShardState, turn: Turn, group: ConsumerGroup, leaving: Sequence[MemberIdentity]
) -> tuple[MemberResponse, ...]:
    """Remove classic members; return what has become of each that was named."""
    responses = []
    leavers: dict[str, None] = {}
    for identity in leaving:
        error = ErrorCode.none
        try:
            leavers[_leaver(group, identity).member_id] = None
        except KafkaError as refused:
            error = refused.code
        responses.append(left(identity, error))
    remove_members(shard, turn, group, list(leavers))
    return tuple(responses)


def _leaver(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    """Return the classic member that is named; an administrator names the instance alone."""
    member = group.static_member(identity.group_instance_id) if not identity.member_id else None
    if member is None:
        member = check_identity(group, identity.member_id, identity.group_instance_id)
    return _checked_classic(member)


def _checked_member(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
    member = _checked_classic(check_identity(group, member_id, instance_id))
    if generation != member.epoch:
        raise IllegalGeneration(
            f"member {member_id} of group {group.group_id} is at {member.epoch}, not {generation}"
        )
    return member


def _checked_classic(member: ConsumerMember) -> ConsumerMember:
    if not member.uses_classic_protocol:
        raise UnknownMemberId(f"member {member.member_id} does not speak the classic protocol")
    return member


def _expect_join(shard: ShardState, turn: Turn, group: ConsumerGroup, member: ConsumerMember) -> None:
    """Set the deadline for a member that is told to join; if it was told before, that one holds."""
    timer = ClassicJoinTimeout(group.group_id, member.member_id)
    if timer not in shard.timers:
        shard.timers.set(timer, turn.now_ms + member.rebalance_timeout_ms)
