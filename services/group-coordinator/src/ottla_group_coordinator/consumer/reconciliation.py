"""How one member gets from what it owns to what it shall own, one heartbeat at a time.

First the member gives up what is not in its target, keeping its epoch until it says that it has. Then it takes the
target's epoch and is given what nobody else owns; for the rest it waits. Every member takes these steps by itself:
there is no moment at which all of them stop. No partition has two owners, because one is given only when nobody
owns it, and counts as owned until its owner has said that it has let go.

A report says what a member owned when it sent it. That may be before it has taken over what it was told: while it
looks up the topics of its first assignment, librdkafka reports that it owns nothing, and takes the assignment over
with the report on its way. A report may also come late, by way of a broker that was paused, after others of the same
member. So what is merely missing in a report is not given up (`missing`); Kafka's coordinator takes it for granted.
Nor has a member given up what it was told to if its report lacks even what it keeps: it may have heard of neither.
Only a member that subscribes to something else with its report is believed: it must not be told again to own what it
left.

Source: `CurrentAssignmentBuilder` in Kafka, KIP-848.
"""

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from ottla_group_coordinator.consumer.member import ConsumerMember, MemberState
from ottla_group_coordinator.consumer.partitions import NO_PARTITIONS, Partitions, overlap

Ownership = Callable[[UUID, int], str | None]
"""``(topic id, partition) -> member id of the owner, or None``."""


def reconcile(
    member: ConsumerMember, target_epoch: int, target: Partitions, owner: Ownership, reported: Partitions | None
) -> ConsumerMember:
    """Take a member as far towards its target as is safe; return it unchanged if it has to wait.

    Args:
        member: as it is.
        target_epoch: epoch of the newest target assignment.
        target: what it gives to the member.
        owner: who owns a partition at present.
        reported: what the member says that it owns, or None if it does not say.
    """
    if member.is_reconciled_to(target_epoch):
        return member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _holds(member.pending_revocation, reported):
        return member
    return _towards(member, target_epoch, target, owner, reported)


def missing(member: ConsumerMember, target: Partitions, reported: Partitions | None) -> Partitions:
    """Return what a member does not report although it has it, or is about to, and would lose it by that.

    That is what the target takes from it and it was never told to give up. While it is to give something up, it is
    all that it keeps: without that the report is from before it was told, and what it lacks besides may still come.
    """
    if reported is None or member.state is MemberState.UNKNOWN:
        return NO_PARTITIONS
    is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS
    found = {
        topic_id: indexes
        - (frozenset() if is_revoking else target.get(topic_id, frozenset()))
        - reported.get(topic_id, frozenset())
        for topic_id, indexes in member.assigned.items()
    }
    return {topic_id: indexes for topic_id, indexes in found.items() if indexes}


def _holds(partitions: Partitions, reported: Partitions | None) -> bool:
    """Whether the member may still use some of the partitions; silence counts as yes."""
    return reported is None or overlap(reported, partitions)


def _towards(
    member: ConsumerMember, target_epoch: int, target: Partitions, owner: Ownership, reported: Partitions | None
) -> ConsumerMember:
    kept: dict[UUID, frozenset[int]] = {}
    revoked: dict[UUID, frozenset[int]] = {}
    for topic_id, indexes in member.assigned.items():
        wanted = target.get(topic_id, frozenset())
        if indexes & wanted:
            kept[topic_id] = indexes & wanted
        if indexes - wanted:
            revoked[topic_id] = indexes - wanted
    if revoked and _holds(revoked, reported):
        return _changed(member, MemberState.UNREVOKED_PARTITIONS, member.epoch, kept, revoked)
    assigned, is_complete = _with_free_partitions(member, kept, target, owner)
    state = MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS
    return _changed(member, state, target_epoch, assigned, NO_PARTITIONS)


def _with_free_partitions(
    member: ConsumerMember, kept: Partitions, target: Partitions, owner: Ownership
) -> tuple[Partitions, bool]:
    """Return what is kept and what else of the target nobody owns, and whether that is the whole target.

    What the member itself has just given up is free for it as well.
    """
    assigned: dict[UUID, frozenset[int]] = dict(kept)
    is_complete = True
    for topic_id, wanted in target.items():
        present = kept.get(topic_id, frozenset())
        if present == wanted:
            continue
        free = frozenset(index for index in wanted - present if owner(topic_id, index) in {None, member.member_id})
        if present | free:
            assigned[topic_id] = present | free
        is_complete = is_complete and present | free == wanted
    return assigned, is_complete


def _changed(
    member: ConsumerMember, state: MemberState, epoch: int, assigned: Partitions, pending_revocation: Partitions
) -> ConsumerMember:
    """Return the member in a new state; one that is waiting and still has to wait is left as it is."""
    if (member.state, member.epoch, member.assigned, member.pending_revocation) == (
        state,
        epoch,
        assigned,
        pending_revocation,
    ):
        return member
    return replace(
        member,
        state=state,
        epoch=epoch,
        previous_epoch=member.epoch,
        assigned=assigned,
        pending_revocation=pending_revocation,
    )
